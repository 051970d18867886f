package engine

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
)

// ErrNotBegun is the error of DeleteOrphans and AdoptOrphans that have done nothing: no term leads here, or a sweep
// takes its time.
var ErrNotBegun = errors.New("no term leads here, or a sweep goes on: nothing was done")

// Orphans are those of lifecycle.Teardown, on the replica that leads; none without teardown.
func (e *Engine) Orphans(filter lifecycle.OrphanFilter) (list lifecycle.OrphanList, err error) {
	if e.teardown == nil {
		return list, nil
	}
	return e.teardown.Orphans(filter)
}

// DeleteOrphans has lifecycle.Teardown delete them, as part of the term and not while it sweeps: a sweep waits some
// seconds at most. ctx is for the wait for that: what has begun goes on to its end, or to that of the term.
func (e *Engine) DeleteOrphans(
	ctx context.Context, order lifecycle.OrphansOrder,
) (done lifecycle.OrphansDeleted, err error) {
	if e.teardown == nil {
		return done, ErrNotBegun
	}
	if waited := e.sweeper.Order(ctx, func(ctx context.Context) {
		done, err = e.teardown.DeleteOrphans(ctx, order)
	}); waited != nil {
		return done, errors.Join(ErrNotBegun, waited)
	}
	if done.Deleted > 0 && (done.Left == 0 || err != nil) { // else it is asked for more of the same list
		e.sweeper.SweepSoon() // what Stats counts is gone
	}
	return done, err
}

// AdoptOrphans has lifecycle.Teardown give them to their new owner, as DeleteOrphans has them deleted. The new owner is
// reconciled if a write was begun, whatever predicates say, and a sweep looks soon at what became of them.
func (e *Engine) AdoptOrphans(
	ctx context.Context, order lifecycle.AdoptOrder,
) (done lifecycle.OrphansAdopted, err error) {
	if e.teardown == nil {
		return done, ErrNotBegun
	}
	if waited := e.sweeper.Order(ctx, func(ctx context.Context) {
		done, err = e.teardown.AdoptOrphans(ctx, order)
	}); waited != nil {
		return done, errors.Join(ErrNotBegun, waited)
	}
	if done.Adopted+done.Unanswered > 0 {
		e.Enqueue(order.To, operation.Manual)
	}
	more := done.Left > 0 && err == nil && done.Unanswered == 0 // it is asked for more of the same list
	if done.Tried > 0 && !more {
		e.sweeper.SweepSoon() // what Stats counts has an owner, or is not what it was
	}
	return done, err
}
