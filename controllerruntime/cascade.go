package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cascade deletes what a primary that is gone still owns, each with a precondition on what was seen, and as long as it is
// gone.
func (e *engine) cascade(ctx context.Context, a *absence) (gone bool, err error) {
	key := a.key
	targets, err := e.toDelete(ctx, a)
	if err != nil || len(targets) == 0 {
		return err == nil, err
	}
	orphan, err := e.orphans(ctx, key)
	if err != nil {
		return false, err
	}
	if orphan {
		return true, e.leave(ctx, key)
	}
	log := &ownwrites.Log{}
	ctx = ownwrites.WithLog(ctx, log)
	var errs []error
	for _, target := range targets {
		if target.object.GetDeletionTimestamp() != nil {
			continue // on its way: a finalizer holds it
		}
		if err := a.still(ctx); err != nil {
			return false, err
		}
		if err := target.source.Remove(ctx, target.object); err != nil {
			errs = append(errs, fmt.Errorf("delete %s %q, owned by %s %q: %w", target.source, source.ObjectKey(target.object), e.kind, key, err))
			continue
		}
		e.stats.cascaded.Add(1)
	}
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	patience, cancel := context.WithTimeout(ctx, goneCheckInterval)
	defer cancel()
	if log.Wait(patience) != nil {
		return false, nil
	}
	targets, err = e.toDelete(ctx, a)
	return err == nil && len(targets) == 0, err
}

// toDelete is what a primary that is gone still owns, but for what is to stay. Of that the sweep has to know.
func (e *engine) toDelete(ctx context.Context, a *absence) ([]ownedObject, error) {
	targets, err := e.ownedObjects(a.key)
	if err != nil {
		return nil, err
	}
	targets = slices.DeleteFunc(targets, func(o ownedObject) bool { return slices.Contains(a.behind, o.source) })
	if targets, a.spared, err = e.spare(ctx, a.key, targets); err != nil || len(targets) > 0 {
		return targets, err
	}
	if targets, err = e.unseenObjects(ctx, a.key); err != nil || len(targets) > 0 {
		return targets, err
	}
	if a.spared {
		err = e.leave(ctx, a.key)
	}
	return nil, err
}

// ownedObject is a secondary of this installation and where it lives.
type ownedObject struct {
	source source.Owned
	object metav1.Object
}

func (e *engine) ownedObjects(key string) ([]ownedObject, error) {
	var found []ownedObject
	for _, s := range e.ownedSources() {
		objects, err := s.OwnedBy(key)
		if err != nil {
			return nil, fmt.Errorf("list what %s %q owns in %s: %w", e.kind, key, s, err)
		}
		for _, obj := range objects {
			if e.mine(obj) {
				found = append(found, ownedObject{source: s, object: obj})
			} else {
				e.stats.foreign.Add(1)
			}
		}
	}
	return found, nil
}

// orphans tells whether the last known document asks to leave what it owned.
func (e *engine) orphans(ctx context.Context, key string) (bool, error) {
	if deleted := e.keys.of(key).deleted; deleted != nil && deleted.object != nil {
		return deleted.object.GetAnnotations()[DeletionPolicyAnnotation] == DeletionPolicyOrphan, nil
	}
	held, err := e.records.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		return e.leftBehind(ctx, key)
	}
	if err != nil {
		return false, fmt.Errorf("read the record of %s %q for its deletion policy: %w", e.kind, key, err)
	}
	if !record.IsAnchor(held) {
		return e.leftBehind(ctx, key)
	}
	if held.DeletionPolicy != "" || len(held.LastDocument) == 0 {
		return held.DeletionPolicy == DeletionPolicyOrphan, nil
	}
	var document metav1.PartialObjectMetadata
	if err := json.Unmarshal(held.LastDocument, &document); err != nil {
		return false, fmt.Errorf("read the last document of %s %q for its deletion policy: %w", e.kind, key, err)
	}
	return document.Annotations[DeletionPolicyAnnotation] == DeletionPolicyOrphan, nil
}
