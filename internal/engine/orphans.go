package engine

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
)

// ErrNotBegun is the error of DeleteOrphans that has done nothing: no term leads here, or a sweep takes its time.
var ErrNotBegun = errors.New("no term leads here, or a sweep goes on: nothing was done")

// Orphans are those of lifecycle.Teardown, on the replica that leads; none without teardown.
func (e *Engine) Orphans(filter lifecycle.OrphanFilter) (found []lifecycle.Orphan, at time.Time, err error) {
	if e.teardown == nil {
		return nil, at, nil
	}
	return e.teardown.Orphans(filter)
}

// DeleteOrphans has lifecycle.Teardown delete them, as part of the term and not while it sweeps. ctx is for the wait
// for that: what has begun goes on to its end, or to that of the term.
func (e *Engine) DeleteOrphans(
	ctx context.Context, filter lifecycle.OrphanFilter, expect int,
) (deleted int, err error) {
	if e.teardown == nil {
		return 0, ErrNotBegun
	}
	if waited := e.sweeper.Order(ctx, func(ctx context.Context) {
		deleted, err = e.teardown.DeleteOrphans(ctx, filter, expect)
	}); waited != nil {
		return 0, errors.Join(ErrNotBegun, waited)
	}
	if deleted > 0 {
		e.sweeper.SweepSoon() // what the list has, and Stats counts, is gone
	}
	return deleted, err
}
