// A Pruner deletes what a reconcile no longer wants of what its primary owns, such as a secondary under its old name.
//
// The rules, beside those of the guard (package deletes):
//
//   - Only a reconcile that has succeeded and waits for nothing says what is wanted, and only of the places in which it
//     has written or kept something. It says so of the revision that it reconciled, which must still be the latest.
//   - A key that cannot be in its place, or a place that is none, is the reconcile's error: what was to be kept would
//     go.
//   - What is not wanted is read at the API server first, and must be there as it was seen.
//   - What another controller has written, and what may be another's, goes when a release says so: two controllers with
//     one id of the installation each take for their own what the other makes.

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Prunable is a source of secondaries.
type Prunable interface {
	source.Placed
	// Prunes reports whether its user wants it pruned.
	Prunes() bool
	// CheckKey returns an error for a key that no object of the source can have.
	CheckKey(key string) error
	// Live returns an object as the server has it, where its delete does not ask for what was seen; nil if it is gone.
	Live(ctx context.Context, obj metav1.Object) (metav1.Object, error)
}

var _ Prunable = (*source.NATS[entity.IEntity])(nil) // package source cannot say so itself: this one imports it

// PrunableOf are those of owned that can be pruned.
func PrunableOf(owned []source.Owned) (sources []Prunable) {
	for _, s := range owned {
		if s, ok := s.(Prunable); ok {
			sources = append(sources, s)
		}
	}
	return sources
}

// EndedReconcile is one that has ended.
type EndedReconcile interface {
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

var _ EndedReconcile = (*reconcilectx.Context)(nil)

// PrunePrimaries are the source of the primaries.
type PrunePrimaries interface {
	View(key string) source.View
	Stream() source.Stream
}

// PruneBrake decides whether many primaries may have something pruned.
type PruneBrake interface {
	AdmitPrune(key, doubt string) bool
	ForgetPrune(key string)
}

// Pruner prunes. All fields are required.
type Pruner struct {
	Kind    string // of the primaries
	Sources func() []Prunable
	// Places are those of the sources that are pruned, see PrunedPlaces.
	Places    func() sets.Set[source.Place]
	Primaries PrunePrimaries
	Claim     func() owner.Claim
	// Writer is what tells the controller from others: its status bucket.
	Writer string
	// Shared says that another controller may have the id of the installation, because people have given it.
	Shared bool
	Brake  PruneBrake
	Guard  *deletes.Guard
	// Pruned is told of each object that was deleted.
	Pruned func()
}

// PrunedPlaces are those of the owned sources whose users want them pruned; nil if there are none.
func PrunedPlaces(owned []source.Owned) (places sets.Set[source.Place]) {
	for _, s := range PrunableOf(owned) {
		if s.Prunes() {
			if places == nil {
				places = sets.New[source.Place]()
			}
			places.Insert(s.Place())
		}
	}
	return places
}

// Reconciler makes the world match one primary.
type Reconciler = func(ctx context.Context, key string, ops operation.Operations) (Requeue, error)

// Requeue says when a key is due again by itself, and how urgent it is then.
type Requeue struct {
	After    time.Duration   // if it is positive
	Priority *queue.Priority // nil: as the runtime has it
}

// Around prunes after each reconcile that succeeds and is done, if anything is to be pruned at all.
func (p *Pruner) Around(reconcile Reconciler) Reconciler {
	return func(ctx context.Context, key string, ops operation.Operations) (Requeue, error) {
		if len(p.Places()) == 0 {
			return reconcile(ctx, key, ops)
		}
		revision := p.Primaries.View(key).Revision
		requeue, err := reconcile(ctx, key, ops)
		r, ok := reconcilectx.Of(ctx)
		if err != nil || !ok {
			return requeue, err
		}
		ended, ok := r.(EndedReconcile)
		if !ok {
			return requeue, nil
		}
		if err = p.misplaced(ended); err == nil && requeue.After <= 0 {
			err = p.After(ctx, ended, revision)
		}
		return requeue, err
	}
}

// misplaced is about keys that are kept where they cannot be; nil if there are none.
func (p *Pruner) misplaced(r EndedReconcile) error {
	var errs []error
	for place, keys := range r.Kept() {
		known := false
		for _, s := range p.Sources() {
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

// pruneAgain is when a primary is looked at again that waits. What it waits for makes it due before, mostly.
const pruneAgain = time.Minute

// After is called after a reconcile that has succeeded. revision is that of the primary when the reconcile began.
func (p *Pruner) After(ctx context.Context, r EndedReconcile, revision uint64) error {
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
	doubt := p.doubt(v, key, targets)
	round := p.Guard.OfUnwanted(key, revision, func(context.Context, deletes.Source, metav1.Object) bool {
		return p.Brake.AdmitPrune(key, doubt)
	})
	if round.InCache() != nil { // what the next revision wants is not known yet
		r.WaitFor(fmt.Sprintf("the reconcile of a later revision, before %s goes", describe(targets)), pruneAgain)
		return nil
	}
	if !p.Brake.AdmitPrune(key, doubt) {
		r.WaitFor(fmt.Sprintf(waitsForBrake, describe(targets)), pruneAgain)
		return nil
	}
	left, err := p.remove(ctx, round, targets)
	switch {
	case err != nil:
		return err
	case left != "":
		r.WaitFor(left, pruneAgain)
		return nil
	}
	p.Brake.ForgetPrune(key)
	return nil
}
