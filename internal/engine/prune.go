package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
)

// newGuard makes what stands before each delete.
func (e *Engine) newGuard() *deletes.Guard {
	return deletes.New(deletes.Config{
		Kind: e.Kind, Primaries: e.primary, Claim: e.Claim, Leads: e.leadsStill,
		Late:         func(s deletes.Source) bool { _, late := e.without.Load(s); return late },
		Contest:      func(key string) { e.life.Contest(key) },
		LeaderErrors: func() { e.stats.LeaderErrors.Add(1) },
	})
}

// leadsStill is nil while the term of ctx leads. It asks the clock, too, which ends a term: after a pause of the
// process ctx may hear of that a moment later.
func (e *Engine) leadsStill(ctx context.Context) error {
	if won := e.leadership.won.Load(); won != nil && won.Over() {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

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
