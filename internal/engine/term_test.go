package engine

import (
	"context"
	"testing"
	"time"

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
		reconcile: func(context.Context, string, operation.Operations) (time.Duration, error) {
			calls++
			return 0, nil
		},
	}
	defer e.queue.ShutDown()
	over := &lifecycle.Term{Ctx: t.Context(), RunCtx: t.Context(), HandOut: t.Context(), Lease: new(lease.Term)}
	it := queue.Item{Key: "home", Ops: operation.Of(operation.Put)}

	_, instead := e.Call(over, it, false)
	if instead == nil || instead.Verdict != lifecycle.GivenBack {
		t.Errorf("called for a key that was handed out before: %+v", instead)
	}

	e.queue.Add(it.Key, it.Ops, queue.Live)
	e.work(over) // returns
	if ready := e.queue.Counts().Ready; ready[queue.Live] != 1 {
		t.Errorf("the key is not due any more: %v", ready)
	}
	if calls != 0 {
		t.Errorf("%d calls", calls)
	}
}
