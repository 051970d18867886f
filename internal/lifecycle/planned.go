package lifecycle

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlannedDelete is an object that the runtime would delete.
type PlannedDelete struct {
	Source source.Owned
	Object metav1.Object
}

// Planned returns what a primary that is gone owns, by the caches, and would go with it. keeps says that all of it
// stays, as its last document asks.
func (t *Teardown) Planned(ctx context.Context, key string) (would []PlannedDelete, keeps bool, err error) {
	if t.NoCascade {
		return nil, false, nil
	}
	var targets []owned
	for _, s := range t.deletable() {
		claim := t.Owner.Claim().In(s)
		objects, err := s.OwnedBy(key)
		if err != nil {
			return nil, false, fmt.Errorf("list what %s %q owns in %s: %w", t.Kind, key, s, err)
		}
		for _, obj := range objects {
			if claim.Owns(obj, key) {
				targets = append(targets, owned{s, obj})
			}
		}
	}
	if targets, _, err = t.spare(ctx, key, targets); err != nil || len(targets) == 0 {
		return nil, false, err
	}
	if keeps, err = t.asksToKeep(ctx, key); err != nil || keeps {
		return nil, keeps, err
	}
	for _, target := range targets {
		if target.object.GetDeletionTimestamp() == nil {
			would = append(would, PlannedDelete{target.source, target.object})
		}
	}
	return would, false, nil
}

// Planned returns what a reconcile that has ended does not want any more, by the caches. doubt is why the brake would
// hold it; "" if nothing speaks against it.
func (p *Pruner) Planned(r EndedReconcile) (would []PlannedDelete, doubt string, err error) {
	if len(p.Places()) == 0 {
		return nil, "", nil
	}
	v := p.Primaries.View(r.Key())
	if v.Object == nil || source.DeletionPolicy(v.Object) == entity.DeletionPolicyOrphan {
		return nil, "", nil
	}
	if err := p.misplaced(r); err != nil {
		return nil, "", err
	}
	targets, err := p.unwanted(r)
	if err != nil || len(targets) == 0 {
		return nil, "", err
	}
	for _, t := range targets {
		if s, ok := t.source.(source.Owned); ok {
			would = append(would, PlannedDelete{s, t.object})
		}
	}
	return would, p.doubt(v, r.Key(), targets), nil
}
