// Package prune deletes what a reconcile no longer wants of what its primary owns, such as a secondary under its old
// name.
//
// The rule: only a reconcile that has succeeded and waits for nothing says what is wanted, and only of the places in
// which it has written or kept something. What is not wanted goes with a precondition on what was seen, and when the
// brake says so.
package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Source is a source of secondaries.
type Source interface {
	source.Owned
	// Prunes reports whether its user wants it pruned.
	Prunes() bool
	Place() source.Place
}

// Sources are those of owned whose users want them pruned.
func Sources(owned []source.Owned) (pruned []Source) {
	for _, s := range owned {
		if s, ok := s.(Source); ok && s.Prunes() {
			pruned = append(pruned, s)
		}
	}
	return pruned
}

// Reconcile is one that has ended.
type Reconcile interface {
	Key() string
	// Wanted returns what it wants of a place; ok is false if it said nothing of it.
	Wanted(place source.Place) (keys sets.Set[string], ok bool)
	// Pending is what it waits for; "" is nothing.
	Pending() (after time.Duration, what string)
	// Await makes it wait.
	WaitFor(what string, after time.Duration)
}

// Primaries are the source of the primaries.
type Primaries interface {
	View(key string) source.View
	Stream() source.Stream
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
	Brake     Brake
	// Contest is told of a primary of which a delete may be under way that is not answered.
	Contest func(key string)
	// Pruned is told of each object that was deleted.
	Pruned func()
}

// Reconciler makes the world match one primary.
type Reconciler = func(
	ctx context.Context, key string, ops operation.Operations,
) (requeueAfter time.Duration, err error)

// Around prunes after each reconcile that succeeds and is done.
func (p *Pruner) Around(reconcile Reconciler) Reconciler {
	return func(ctx context.Context, key string, ops operation.Operations) (time.Duration, error) {
		after, err := reconcile(ctx, key, ops)
		r, ok := current.Of(ctx)
		if err != nil || after > 0 || !ok {
			return after, err
		}
		if r, ok := r.(Reconcile); ok {
			err = p.After(ctx, r)
		}
		return after, err
	}
}

// again is when a primary is looked at again that the brake has not let go. The brake enqueues it before.
const again = time.Minute

// After is called after a reconcile that has succeeded.
func (p *Pruner) After(ctx context.Context, r Reconcile) error {
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
	if !p.Brake.AdmitPrune(key, p.doubt(v, key, targets)) {
		r.WaitFor(fmt.Sprintf("the brake, before %s goes", describe(targets)), again)
		return nil
	}
	if err := p.remove(ctx, key, targets); err != nil {
		return err
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
		claim := p.Claim().In(s)
		wanted, spokenOf := r.Wanted(s.Place())
		if viewer, ok := s.(interface{ Outdated() error }); !spokenOf || ok && viewer.Outdated() != nil {
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

// doubt says what speaks against deleting the targets: one was written for a later document, so the documents may have
// been restored. "" is nothing.
func (p *Pruner) doubt(v source.View, key string, targets []target) string {
	stream := p.Primaries.Stream().Created
	for _, t := range targets {
		stamp := owner.StampOf(t.object)
		if stamp.IsNone() || stamp.Stream == stream && stamp.Revision <= v.Revision {
			continue
		}
		return fmt.Sprintf("%s %q, at revision %d, does not want %v any more, which was written for revision %d of it "+
			"(stream %s, now %s): the documents may have been restored to an earlier state",
			p.Kind, key, v.Revision, t, stamp.Revision, stamp.Stream, stream)
	}
	return ""
}

// remove deletes the targets as they were seen. A delete that is not answered may arrive late.
func (p *Pruner) remove(ctx context.Context, key string, targets []target) error {
	p.Contest(key)
	var errs []error
	for _, t := range targets {
		if err := t.source.Remove(ctx, t.object); err != nil {
			errs = append(errs, fmt.Errorf("prune %v, which %s %q does not want any more: %w", t, p.Kind, key, err))
			continue
		}
		p.Pruned()
	}
	return errors.Join(errs...)
}
