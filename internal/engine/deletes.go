package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/shards"
)

// newGuard makes what stands before each delete.
func (e *Engine) newGuard() *deletes.Guard {
	return deletes.New(deletes.Config{
		Kind: e.Kind, Primaries: e.primary, Claim: e.Claim, Leads: e.leadsStill,
		Late:         func(s deletes.Source) bool { _, late := e.without.Load(s); return late || !e.sources.Has(s) },
		Contest:      func(key string) { e.life.Contest(key) },
		LeaderErrors: func() { e.stats.LeaderErrors.Add(1) },
	})
}

// leadsStill is nil while the term of ctx leads. It asks the clock, too, which ends a term: after a pause of the
// process ctx may hear of that a moment later.
func (e *Engine) leadsStill(ctx context.Context) error {
	won := e.leadership.won.Load()
	switch {
	case e.sharing != nil && !e.sharing.Lasts():
		return shards.ErrLeaseOver
	case e.sharing == nil && won != nil && won.Over():
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
