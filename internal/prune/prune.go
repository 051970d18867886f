// Package prune deletes what a reconcile no longer wants of what its primary owns, such as a secondary under its old
// name.
//
// The rules:
//
//   - Only a reconcile that has succeeded and waits for nothing says what is wanted, and only of the places in which it
//     has written or kept something. It says so of the revision that it reconciled, which must still be the latest:
//     the cache is asked, and the leader.
//   - A key that cannot be in its place, or a place that is none, is the reconcile's error: what was to be kept would
//     go.
//   - What is not wanted goes with a precondition on what was seen, as the API server has it, and when the brake says
//     so.
//   - What another controller has written, and what may be another's, goes when a release says so: two controllers with
//     one id of the installation each take for their own what the other makes.
package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Source is a source of secondaries.
type Source interface {
	source.Owned
	source.Placed
	// Prunes reports whether its user wants it pruned.
	Prunes() bool
	// CheckKey returns an error for a key that no object of the source can have.
	CheckKey(key string) error
	// Live returns an object as the server has it, where its delete does not ask for what was seen; nil if it is gone.
	Live(ctx context.Context, obj metav1.Object) (metav1.Object, error)
}

var _ Source = (*source.NATS[entity.IEntity])(nil) // package source cannot say so itself: this one imports it

// Sources are those of owned that can be pruned.
func Sources(owned []source.Owned) (sources []Source) {
	for _, s := range owned {
		if s, ok := s.(Source); ok {
			sources = append(sources, s)
		}
	}
	return sources
}

// Reconcile is one that has ended.
type Reconcile interface {
	Key() string
	// Wanted returns what it wants of a place; ok is false if it said nothing of it.
	Wanted(place source.Place) (keys sets.Set[string], ok bool)
	// Kept returns what of that its reconciler has named, by place.
	Kept() map[source.Place][]string
	// Pending is what it waits for; "" is nothing.
	Pending() (after time.Duration, what string)
	// WaitFor makes it wait.
	WaitFor(what string, after time.Duration)
}

// Primaries are the source of the primaries.
type Primaries interface {
	View(key string) source.View
	Stream() source.Stream
	// Confirm asks the leader.
	Confirm(ctx context.Context, key string) (entity.Presence, error)
}

// Brake decides whether many primaries may have something pruned.
type Brake interface {
	AdmitPrune(key, doubt string) bool
	ForgetPrune(key string)
}

// Pruner prunes. All fields are required.
type Pruner struct {
	Kind      string // of the primaries
	Sources   []Source
	Primaries Primaries
	Claim     func() owner.Claim
	// Writer is what tells the controller from others: its status bucket.
	Writer string
	// Shared says that another controller may have the id of the installation, because people have given it.
	Shared bool
	Brake  Brake
	// Contest is told of a primary of which a delete may be under way that is not answered.
	Contest func(key string)
	// Pruned is told of each object that was deleted, and LeaderErrors of a leader that did not answer.
	Pruned, LeaderErrors func()
}

// Places are those that are pruned.
func (p *Pruner) Places() sets.Set[source.Place] {
	places := sets.New[source.Place]()
	for _, s := range p.Sources {
		if s.Prunes() {
			places.Insert(s.Place())
		}
	}
	return places
}

// Reconciler makes the world match one primary.
type Reconciler = func(
	ctx context.Context, key string, ops operation.Operations,
) (requeueAfter time.Duration, err error)

// Around prunes after each reconcile that succeeds and is done, if anything is to be pruned at all.
func (p *Pruner) Around(reconcile Reconciler) Reconciler {
	if len(p.Places()) == 0 {
		return reconcile
	}
	return func(ctx context.Context, key string, ops operation.Operations) (time.Duration, error) {
		revision := p.Primaries.View(key).Revision
		after, err := reconcile(ctx, key, ops)
		r, ok := reconcilectx.Of(ctx)
		if err != nil || !ok {
			return after, err
		}
		ended, ok := r.(Reconcile)
		if !ok {
			return after, nil
		}
		if err = p.misplaced(ended); err == nil && after <= 0 {
			err = p.After(ctx, ended, revision)
		}
		return after, err
	}
}

// misplaced is about keys that are kept where they cannot be; nil if there are none.
func (p *Pruner) misplaced(r Reconcile) error {
	var errs []error
	for place, keys := range r.Kept() {
		known := false
		for _, s := range p.Sources {
			if s.Place() != place {
				continue
			}
			known = true
			for _, key := range keys {
				if err := s.CheckKey(key); err != nil {
					errs = append(errs, fmt.Errorf("%s: nothing of %s can have the key %q, so nothing is kept by "+
						"it: %w", keeps(place), s, key, err))
					break // the others are mostly wrong for the same reason
				}
			}
		}
		switch {
		case known:
		case place.Informer != nil:
			errs = append(errs, fmt.Errorf("%s: the informer is none of this controller's, so nothing is kept: give "+
				"the one that OwnsKube has, or use Keep of the handle", keeps(place)))
		default:
			errs = append(errs, fmt.Errorf("%s: bucket %s is that of no Owns of this controller, so nothing is kept",
				keeps(place), place.Bucket))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("nothing is pruned: %w", errors.Join(errs...))
}

// keeps is the function that says what is to be kept in a place.
func keeps(place source.Place) string {
	if place.Informer != nil {
		return "KeepKube"
	}
	return "Keep"
}

// again is when a primary is looked at again that waits. What it waits for makes it due before, mostly.
const again = time.Minute

// After is called after a reconcile that has succeeded. revision is that of the primary when the reconcile began.
func (p *Pruner) After(ctx context.Context, r Reconcile, revision uint64) error {
	if _, waits := r.Pending(); waits != "" {
		return nil
	}
	key := r.Key()
	v := p.Primaries.View(key)
	if v.Object == nil || source.DeletionPolicy(v.Object) == entity.DeletionPolicyOrphan {
		return nil
	}
	targets, err := p.unwanted(r)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		p.Brake.ForgetPrune(key)
		return nil
	}
	seen := &presence{pruner: p, key: key, revision: revision}
	if !seen.inCache() { // what the next revision wants is not known yet
		r.WaitFor(fmt.Sprintf("the reconcile of a later revision, before %s goes", describe(targets)), again)
		return nil
	}
	if !p.Brake.AdmitPrune(key, p.doubt(v, key, targets)) {
		r.WaitFor(fmt.Sprintf("the brake, before %s goes", describe(targets)), again)
		return nil
	}
	left, err := p.remove(ctx, seen, targets)
	switch {
	case err != nil:
		return err
	case left != "":
		r.WaitFor(left, again)
		return nil
	}
	p.Brake.ForgetPrune(key)
	return nil
}

// target is an object that is not wanted.
type target struct {
	source Source
	object metav1.Object
}

func (t target) String() string { return fmt.Sprintf("%s %q", t.source, source.ObjectKey(t.object)) }

func describe(targets []target) string {
	if len(targets) == 1 {
		return targets[0].String()
	}
	return fmt.Sprintf("%v and %d more", targets[0], len(targets)-1)
}

// unwanted are the objects that the primary owns and the reconcile does not want, of sources whose view is not known to
// be an old one.
func (p *Pruner) unwanted(r Reconcile) (targets []target, err error) {
	for _, s := range p.Sources {
		if !s.Prunes() {
			continue
		}
		claim := p.Claim().In(s)
		wanted, spokenOf := r.Wanted(s.Place())
		if !spokenOf || s.Outdated() != nil {
			continue
		}
		objects, err := s.OwnedBy(r.Key())
		if err != nil {
			return nil, fmt.Errorf("list what %s %q owns in %s: %w", p.Kind, r.Key(), s, err)
		}
		for _, obj := range objects {
			if !wanted.Has(source.ObjectKey(obj)) && obj.GetDeletionTimestamp() == nil && claim.Owns(obj, r.Key()) {
				targets = append(targets, target{s, obj})
			}
		}
	}
	return targets, nil
}
