package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cascade deletes what a primary that is gone still owns, each object with a precondition on what was seen, and as
// long as the primary is gone.
func (t *Teardown) cascade(ctx context.Context, a *absence) (gone bool, err error) {
	targets, err := t.toDelete(ctx, a)
	if err != nil || len(targets) == 0 && a.leavesNothing() {
		return err == nil, err
	}
	keep, err := t.asksToKeep(ctx, a.key)
	if err != nil {
		return false, err
	}
	if keep {
		a.leaveNothing() // it would stay anyway
		return true, t.leave(ctx, a.key)
	}
	if len(targets) == 0 {
		return true, nil
	}
	a.held = t.heldBy(a.key, targets) // what was held before stays so while the caches tell nothing new
	log := &ownwrites.Log{}
	ctx = ownwrites.WithLog(ctx, log)
	if err := t.remove(ctx, a, targets); err != nil {
		return false, err
	}
	patience, cancel := context.WithTimeout(ctx, CheckInterval)
	defer cancel()
	if log.Wait(patience) != nil {
		return false, nil
	}
	if targets, err = t.toDelete(ctx, a); err != nil {
		return false, err
	}
	a.held = t.heldBy(a.key, targets)
	return len(targets) == 0, nil
}

func (t *Teardown) remove(ctx context.Context, a *absence, targets []owned) error {
	var errs []error
	for _, target := range targets {
		if target.object.GetDeletionTimestamp() != nil {
			continue // on its way: a finalizer holds it
		}
		switch err := a.Delete(ctx, target.source, target.object); {
		case err == nil:
			t.Counters.Cascaded()
			t.NoteDeleted(a.key, target.source.String(), source.ObjectKey(target.object))
		case deletes.Ends(err):
			return err
		case errors.Is(err, deletes.ErrHeld): // as is the rest
			return errors.Join(errs...)
		case errors.Is(err, source.ErrNotSynced): // no failure: the next look waits for the source
		default:
			errs = append(errs, fmt.Errorf("delete %s %q, owned by %s %q: %w",
				target.source, source.ObjectKey(target.object), t.Kind, a.key, err))
		}
	}
	return errors.Join(errs...)
}

// toDelete returns what a primary that is gone still owns, but for what is to stay. Of that the sweep has to know.
func (t *Teardown) toDelete(ctx context.Context, a *absence) ([]owned, error) {
	a.leaveNothing()
	targets, err := t.ownedBy(a)
	if err != nil {
		return nil, err
	}
	if targets, a.spared, err = t.spare(ctx, a.key, targets); err != nil || len(targets) > 0 {
		return targets, err
	}
	if targets, err = t.ownedLive(ctx, a); err != nil || len(targets) > 0 {
		return targets, err
	}
	if a.spared {
		err = t.leave(ctx, a.key)
	}
	return nil, err
}

// owned is a secondary of this installation and where it lives.
type owned struct {
	source source.Owned
	object metav1.Object
}

// deletable are the sources in which the runtime can delete.
func (t *Teardown) deletable() []source.Owned {
	return slices.DeleteFunc(t.Sources(), func(s source.Owned) bool { return !s.Deletable() })
}

func (t *Teardown) ownedBy(a *absence) ([]owned, error) {
	var found []owned
	for _, s := range t.deletable() {
		if slices.Contains(a.stale, s) {
			continue
		}
		claim := t.Owner.Claim().In(s)
		objects, err := s.OwnedBy(a.key)
		if err != nil {
			return nil, fmt.Errorf("list what %s %q owns in %s: %w", t.Kind, a.key, s, err)
		}
		for _, obj := range objects {
			switch {
			case a.owns(obj, claim):
				found = append(found, owned{s, obj})
			case !a.leaves(s, obj, claim):
				t.Counters.Foreign()
			}
		}
	}
	return found, nil
}

// ownedLive asks once more, when the caches show nothing, before the anchor goes: after that nothing would ever
// delete what a cache was late with, or does not cover. It is one request for each source. Those in which nothing is to
// be deleted now are not asked: the teardown does not end before they are.
func (t *Teardown) ownedLive(ctx context.Context, a *absence) ([]owned, error) {
	var found []owned
	kept, unknown, err := t.kept(a.key)
	if err != nil {
		return nil, err
	}
	for _, s := range t.deletable() {
		if slices.Contains(a.stale, s) {
			continue
		}
		claim := t.Owner.Claim().In(s)
		objects, err := s.OwnedLive(ctx, a.key)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			isKept := func(other metav1.Object) bool { return same(obj, other) }
			switch {
			case slices.ContainsFunc(kept, isKept):
			case a.owns(obj, claim) && unknown != nil:
				return nil, fmt.Errorf("%s %q: whether %s %q is to stay is not known: %w",
					t.Kind, a.key, s, source.ObjectKey(obj), unknown)
			case a.owns(obj, claim):
				found = append(found, owned{s, obj})
			default:
				a.leaves(s, obj, claim)
			}
		}
	}
	return found, nil
}

// kept are the objects of a primary that sources without a deleter show. A live list is of the whole cluster, so it has
// them, too: but they are to stay. unknown is why such a source shows nothing that has not synced; nil if all have.
func (t *Teardown) kept(key string) (kept []metav1.Object, unknown, err error) {
	for _, s := range t.Sources() {
		if s.Deletable() {
			continue
		}
		if err := t.Guard.Outdated(s); errors.Is(err, source.ErrNotSynced) {
			unknown = err
			continue
		}
		objects, err := s.OwnedBy(key)
		if err != nil {
			return nil, nil, fmt.Errorf("list what %s %q owns in %s: %w", t.Kind, key, s, err)
		}
		kept = append(kept, objects...)
	}
	return kept, unknown, nil
}

// same reports whether a live object is a cached one. A transform may have taken the uid off that.
func same(live, cached metav1.Object) bool {
	if cached.GetUID() == "" {
		return source.ObjectKey(live) == source.ObjectKey(cached)
	}
	return live.GetUID() == cached.GetUID()
}

// spare leaves out of what a primary owned the resources that its reconciler only observed.
func (t *Teardown) spare(ctx context.Context, key string, targets []owned) (rest []owned, spared bool, err error) {
	counts := map[source.Owned]int{}
	for _, target := range targets {
		counts[target.source]++
	}
	stay, err := t.APIs.Spared(ctx, key, counts)
	if err != nil || len(stay) == 0 {
		return targets, false, err
	}
	for _, target := range targets {
		if !stay[target.source] {
			rest = append(rest, target)
		}
	}
	return rest, true, nil
}

// asksToKeep reports whether the last known document asks to keep what it owned.
func (t *Teardown) asksToKeep(ctx context.Context, key string) (bool, error) {
	if last := t.Owner.LastSeen(key); last != nil {
		return last.GetAnnotations()[entity.DeletionPolicyAnnotation] == entity.DeletionPolicyOrphan, nil
	}
	held, err := t.Anchors.Live(ctx, key)
	if err != nil {
		return false, fmt.Errorf("read the record of %s %q for its deletion policy: %w", t.Kind, key, err)
	}
	if !record.IsAnchor(held) {
		return t.leftBehind(ctx, key)
	}
	if held.DeletionPolicy != "" || len(held.LastDocument) == 0 {
		return held.DeletionPolicy == entity.DeletionPolicyOrphan, nil
	}
	var document metav1.PartialObjectMetadata
	if err := json.Unmarshal(held.LastDocument, &document); err != nil {
		return false, fmt.Errorf("read the last document of %s %q for its deletion policy: %w", t.Kind, key, err)
	}
	return document.Annotations[entity.DeletionPolicyAnnotation] == entity.DeletionPolicyOrphan, nil
}
