package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatAKeyWaitsForDoesNotChangeItsPriority: each outcome after which a key is due for the same reasons.
func TestWhatAKeyWaitsForDoesNotChangeItsPriority(t *testing.T) {
	unwell := errors.New("the world is unwell")
	failed := lifecycle.Attempt{Number: 1, Err: unwell}
	for name, outcome := range map[string]lifecycle.Outcome{
		"an attempt that failed":        {Verdict: lifecycle.Failed, Attempt: failed},
		"a step of a teardown":          {Verdict: lifecycle.Failed, Attempt: lifecycle.Attempt{Err: unwell}},
		"a look again":                  {Verdict: lifecycle.LookAgain, After: time.Minute},
		"a hand-out that came too late": {Verdict: lifecycle.GivenBack},
		"a record that was not written": {Verdict: lifecycle.RecordFailed, Err: unwell},
		"a status that was refused":     {Verdict: lifecycle.StatusRefused, Err: unwell},
	} {
		for _, prio := range []queue.Priority{queue.Background, queue.Secondary, queue.Live} {
			natstest.Test(t, func(t *testing.T) {
				e := engineOfSites(t, Options{BackoffMin: time.Minute, BackoffMax: time.Minute})
				e.queue.Add("home", operation.Of(operation.Put), prio)
				it, _ := e.queue.Get(t.Context())
				o := outcome
				o.Ops, o.Prio = it.Ops, it.Prio
				e.settle(&lifecycle.Term{Ctx: t.Context(), RunCtx: t.Context()}, it, &o, nil)
				again, _ := e.queue.Get(t.Context())
				if again.Prio != prio || !again.Ops.Has(operation.Put) {
					t.Errorf("after %s a key of priority %d is due for %v with priority %d", name, prio, again.Ops,
						again.Prio)
				}
				e.queue.Done("home")
			})
		}
	}
}

// engineOfSites is an engine over a bucket of a server, which has nothing yet. It does not run.
func engineOfSites(t *testing.T, opts Options) *Engine {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, err := entity.NewClient[*entity.Object[struct{}, struct{}]](t.Context(), js,
		entity.Config{Kind: "Site", Bucket: "sites"})
	must(t, err)
	t.Cleanup(sites.Close)
	e, err := New("sites", sites, func(context.Context, string, operation.Operations) (Requeue, error) {
		return Requeue{}, nil
	}, opts)
	must(t, err)
	t.Cleanup(e.queue.ShutDown)
	return e
}

// TestWhatIsNotReconciledHasNoWriteThatFails: its record says why, maybe since another replica wrote it.
func TestWhatIsNotReconciledHasNoWriteThatFails(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := engineOfSites(t, Options{BackoffMin: time.Minute, BackoffMax: time.Minute})
		e.queue.Add("home", operation.Of(operation.Put), queue.Live)
		for _, o := range []lifecycle.Outcome{
			{Verdict: lifecycle.RecordFailed, Ops: operation.Of(operation.Put), Err: errors.New("the world is unwell")},
			{Verdict: lifecycle.NotReconciled},
		} {
			it, _ := e.queue.Get(t.Context())
			e.settle(&lifecycle.Term{Ctx: t.Context(), RunCtx: t.Context()}, it, &o, nil)
		}
		if n := e.Remembered(); n != 0 {
			t.Errorf("something is remembered of %d keys: %+v", n, e.keys.Of("home"))
		}
	})
}
