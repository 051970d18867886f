package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/record"
)

// TestATerminalErrorIsAnEvent about the primary, with the error: nothing retries it, so somebody has to know.
func TestATerminalErrorIsAnEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		events := record.NewFakeRecorder(10)
		events.IncludeObject = true
		sites := w.sites()
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, TerminalError(errHopeless)
			}
			return Result{}, TerminalError(errDone)
		}), WithEventRecorder(butLease{events}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		told := func(when string, of error) {
			t.Helper()
			natstest.Eventually(t, "the event is there "+when, func() bool { return len(events.Events) > 0 })
			event := <-events.Events
			for _, want := range []string{"Warning Terminal", of.Error(), "kind=Site"} {
				if !strings.Contains(event, want) {
					t.Errorf("%s the event is %q, want %q in it", when, event, want)
				}
			}
		}
		told("while it exists", errDone)
		must(t, sites.Delete(t.Context(), "home"))
		told("while it is torn down", errHopeless)
		natstest.Eventually(t, "the key is parked", func() bool { return c.Stats().Parked == 1 })
		if n := len(events.Events); n > 0 {
			t.Errorf("%d events more: %q", n, <-events.Events)
		}
	})
}
