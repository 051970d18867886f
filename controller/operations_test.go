package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// publicOperations are the constants of this package. A new operation is not there for users without one.
var publicOperations = []Operation{
	OperationPut, OperationDelete, OperationPurge, OperationSecondary, OperationTertiary, OperationExternal,
	OperationResync, OperationRetry, OperationRequeue, OperationManual,
}

// TestNoOperationIsLost on its way: through the queue to the attempt, back to the queue after a failure, into what
// Explain says, and to the next attempt; nor where that asks to be called again.
func TestNoOperationIsLost(t *testing.T) {
	if !slices.Equal(publicOperations, operation.All()) {
		t.Fatalf("users have %v, and there are %v", publicOperations, operation.All())
	}
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		attempts := map[string]int{} // one worker reconciles
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if !strings.HasPrefix(req.Key, "op-") || req.Operations == operation.Of(OperationPut) {
				return Result{}, nil
			}
			switch attempts[req.Key]++; attempts[req.Key] {
			case 1:
				return Result{}, errors.New("not yet")
			case 2:
				return Result{RequeueAfter: time.Millisecond}, nil
			}
			return Result{}, nil
		}), WithWorkers(1), WithResyncInterval(0), WithBackoff(time.Hour, time.Hour), WithDebounce(0, 0))
		must(t, err)
		w.run(c)
		for _, op := range operation.All() {
			key := "op-" + strings.ToLower(op.String())
			gone := operation.Of(op).Gone()
			if !gone {
				must(t, sites.Create(t.Context(), newSite(key, "one")))
				natstest.Eventually(t, key+" is reconciled", func() bool { return seen.with(key, OperationPut) == 1 })
			}
			before := seen.with(key, op)
			if op == OperationPut {
				c.Enqueue(key, OperationTertiary) // one alone is the document's
			}
			c.Enqueue(key, op)
			natstest.Eventually(t, op.String()+" is in the attempt", func() bool { return seen.with(key, op) == before+1 })
			natstest.Eventually(t, op.String()+" is what it is retried for", func() bool {
				return slices.Contains(strings.Split(c.Explain(key).Reasons, "|"), op.String())
			})
			c.Enqueue(key, OperationSecondary)
			natstest.Eventually(t, op.String()+" is in the next attempt", func() bool {
				return seen.with(key, op) >= before+2 || op == OperationRetry // an event overtakes its delay
			})
			if gone {
				natstest.Eventually(t, op.String()+" is in the one that it asked for", func() bool {
					return seen.with(key, op) >= before+3
				})
			}
		}
	})
}
