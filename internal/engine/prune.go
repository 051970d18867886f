package engine

import (
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
)

// Without it a source would not be pruned, and nothing would say so.
var _ lifecycle.Prunable = (*kubesource.Source)(nil)

// prune has what the reconciler does not want any more deleted, in the sources whose users ask for that.
func (e *Engine) prune() {
	if e.contexts.Shared = e.opts.Instance != ""; e.claim != nil {
		e.contexts.Writer = e.statusBucket
	}
	p := &lifecycle.Pruner{
		Kind: e.Kind, Sources: lifecycle.PrunableOf(e.owned()), Primaries: e.primary, Claim: e.Claim, Brake: e.brake,
		Guard: e.deletes, Writer: e.contexts.Writer, Shared: e.contexts.Shared,
		Pruned: func() { e.stats.Pruned.Add(1) },
	}
	e.contexts.Pruned, e.reconcile = p.Places(), p.Around(e.reconcile)
}
