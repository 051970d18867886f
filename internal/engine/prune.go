package engine

import "github.com/nagi-runtime/nagi/internal/prune"

// prune has what the reconciler does not want any more deleted, in the sources whose users ask for that.
func (e *Engine) prune() {
	p := &prune.Pruner{
		Kind: e.Kind, Sources: prune.Sources(e.owned()), Primaries: e.primary, Claim: e.Claim, Brake: e.brake,
		Contest: e.life.Contest, Pruned: func() { e.stats.Pruned.Add(1) },
	}
	if e.contexts.Prunes = len(p.Sources) > 0; e.contexts.Prunes {
		e.reconcile = p.Around(e.reconcile)
	}
}
