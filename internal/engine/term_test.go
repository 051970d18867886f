package engine

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// TestNothingIsDoneInATermWhoseLeaseIsOver by the clock, even if no context has ended yet.
func TestNothingIsDoneInATermWhoseLeaseIsOver(t *testing.T) {
	calls := 0
	e := &Engine{
		queue: queue.New(queue.Options{}), APIs: apisource.NewSet(apisource.Config{}),
		reconcile: func(context.Context, string, operation.Operations) (Requeue, error) {
			calls++
			return Requeue{}, nil
		},
	}
	defer e.queue.ShutDown()
	over := &lifecycle.Term{Ctx: t.Context(), RunCtx: t.Context(), HandOut: t.Context(), Lease: new(lease.Term)}
	it := queue.Item{Key: "home", Ops: operation.Of(operation.Put)}

	_, instead := e.call(over, it, false)
	if instead == nil || instead.Verdict != lifecycle.GivenBack {
		t.Errorf("called for a key that was handed out before: %+v", instead)
	}

	e.queue.Add(it.Key, it.Ops, queue.Live)
	e.work(over) // returns
	if ready := e.queue.Counts().Ready; ready[queue.BandLive] != 1 {
		t.Errorf("the key is not due any more: %v", ready)
	}
	if calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

// TestATeardownThatEndedBecauseTheDocumentReturnedIsNotOwed, whether or not the event of that came before.
func TestATeardownThatEndedBecauseTheDocumentReturnedIsNotOwed(t *testing.T) {
	e := &Engine{queue: queue.New(queue.Options{}), APIs: apisource.NewSet(apisource.Config{})}
	defer e.queue.ShutDown()
	term := &lifecycle.Term{Ctx: t.Context(), RunCtx: t.Context(), HandOut: t.Context()}
	e.queue.Add("home", operation.Of(operation.Delete), queue.Live)
	it, _ := e.queue.Get(t.Context())
	e.keys.NoteOwed(it.Key)
	e.settle(term, it, &lifecycle.Outcome{Verdict: lifecycle.DocumentReturned}, nil)
	if _, _, owed := e.keys.Counts(); owed != 0 || e.queue.Counts().Delayed != 1 {
		t.Errorf("%d teardowns are owed, and %d keys are looked at again", owed, e.queue.Counts().Delayed)
	}
}
