package engine

import (
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Without it a source would not be pruned, and nothing would say so.
var _ lifecycle.Prunable = (*kubesource.Source)(nil)

// prune has what the reconciler does not want any more deleted, in the sources whose users ask for that.
func (e *Engine) prune() {
	if e.contexts.Shared = e.opts.Instance != ""; e.claim != nil {
		e.contexts.Writer = e.statusBucket
	}
	p := &lifecycle.Pruner{
		Kind: e.Kind, Sources: func() []lifecycle.Prunable { return lifecycle.PrunableOf(e.owned()) },
		Places: e.prunedPlaces, Primaries: e.primary, Claim: e.Claim, Brake: e.brake,
		Guard: e.deletes, Writer: e.contexts.Writer, Shared: e.contexts.Shared,
		Pruned: func() { e.stats.Pruned.Add(1) },
	}
	e.pruner, e.unpruned = p, e.reconcile
	e.contexts.Pruned, e.reconcile = e.prunedPlaces, p.Around(e.reconcile)
}

// prunedPlaces are where the runtime prunes now. They must not be modified.
func (e *Engine) prunedPlaces() sets.Set[source.Place] {
	if places := e.pruned.Load(); places != nil {
		return *places
	}
	return nil
}

// findPruned is for sources that have changed.
func (e *Engine) findPruned() {
	places := lifecycle.PrunedPlaces(e.owned())
	e.pruned.Store(&places)
}
