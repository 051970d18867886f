package engine

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// besideAnEnd is an engine beside the leader, which has torn down what this one has reconciled.
func besideAnEnd(t *testing.T) *Engine {
	t.Helper()
	e := engineOfSites(t, Options{WithoutLease: true})
	e.standBy()
	e.keys.Change("home", func(s *keytable.State) { s.Met, s.RecordWent = true, true })
	return e
}

// due is how many keys wait for a worker.
func due(e *Engine) (n int) {
	for _, ready := range e.queue.Counts().Ready {
		n += ready
	}
	return n
}

// TestAnEndThatRestsBesideTheLeaderRests, also if this replica owed the teardown in a term of its own. It span: each
// time that it rested it was due again.
func TestAnEndThatRestsBesideTheLeaderRests(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := besideAnEnd(t)
		e.keys.NoteOwed("home")
		e.queue.Add("home", operation.Of(operation.Delete), queue.Live)
		it, _ := e.queue.Get(t.Context())
		e.settle(&lifecycle.Term{Ctx: t.Context(), RunCtx: t.Context(), Beside: true}, it, &lifecycle.Outcome{}, nil)
		if n := due(e); n != 0 {
			t.Errorf("%d keys are due", n)
		}
	})
}

// TestAnEndBesideTheLeaderIsResumed when the reason for which it failed is gone.
func TestAnEndBesideTheLeaderIsResumed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := besideAnEnd(t)
		e.Resume("home")
		if n := due(e); n != 1 {
			t.Errorf("%d keys are due, want the one", n)
		}
	})
}

// TestWhatCausesAReconcileIsToldBesideTheLeader: without the option it is the leader's to tell.
func TestWhatCausesAReconcileIsToldBesideTheLeader(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for beside, want := range map[bool]int{true: 1, false: 0} {
			e := engineOfSites(t, Options{WithoutLease: beside})
			e.causes = causes.NewTable()
			e.standBy()
			e.Caused("home", &causes.Cause{})
			if n := len(e.causes.Take("home").Causes); n != want {
				t.Errorf("beside %v: %d causes, want %d", beside, n, want)
			}
		}
	})
}
