package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestFailuresInARowAreAFewEventsAndErrorsInTheLog, however many there are.
func TestFailuresInARowAreAFewEventsAndErrorsInTheLog(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		var lines logLines
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			return Result{}, fmt.Errorf("no answer from port %d\x1b[31m", 1000+seen.count(req.Key))
		}), WithBackoff(time.Millisecond, 2*time.Millisecond), WithEventRecorder(&told))
		must(t, err)
		w.run(logging{c, lines.logger()})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it has failed often", func() bool { return seen.count("home") > 130 })
		failed := told.with("ReconcileFailed")
		if len(failed) != 8 {
			t.Errorf("%d events for %d failures, want one for each doubling", len(failed), seen.count("home"))
		}
		for i, one := range failed {
			if want := fmt.Sprintf("attempt %d: ", 1<<i); !strings.HasPrefix(one.message, want) {
				t.Errorf("event %d says %q, want %q", i, one.message, want)
			}
			if one.object != "home" || one.eventType != "Warning" || strings.Contains(one.message, "\x1b") ||
				!strings.Contains(one.message, "no answer from port") || !strings.Contains(one.message, "next attempt in") {
				t.Errorf("the event is %q", one)
			}
		}
		errors, again := lines.with("Reconcile failed"), lines.with("Reconcile failed again")
		if len(errors) != len(failed) || len(again) < 100 {
			t.Errorf("%d errors and %d lines at verbosity 1, want as many errors as events, and the rest",
				len(errors), len(again))
		}
		for i, line := range errors {
			if line["attempt"] != float64(int(1)<<i) {
				t.Errorf("error %d in the log is attempt %v", i, line["attempt"])
			}
		}
	})
}

// TestAFailureOfAnotherKindIsTold although the attempts have not doubled.
func TestAFailureOfAnotherKindIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if seen.count(req.Key) < 11 {
				return Result{}, errors.New("no answer")
			}
			return Result{}, errors.New("not allowed")
		}), WithBackoff(200*time.Millisecond, 200*time.Millisecond), WithEventRecorder(&told))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the other error is told", func() bool {
			failed := told.with("ReconcileFailed")
			return len(failed) >= 5 && strings.Contains(failed[4].message, "not allowed")
		})
	})
}

// TestWhatFailsBesidesANameIsTold: the name that the primary does not get has an event of its own, the rest has none.
func TestWhatFailsBesidesANameIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, pages.Create(t.Context(), foreignPage("home", "elsewhere")))
		var told events
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			_, err := CreateOrUpdate(ctx, pages, named(req.Key), titled("ours"))
			return Result{}, errors.Join(err, errors.New("the database is away"))
		}), Owns(pages), WithEventRecorder(&told))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "an event tells of the other error", func() bool {
			failed := told.with("ReconcileFailed")
			return len(failed) > 0 && strings.Contains(failed[0].message, "the database is away")
		})
		if n := len(told.with(ReasonAlreadyOwned)); n != 1 {
			t.Errorf("%d events tell of the name, want 1", n)
		}
	})
}

func TestAPanicIsAnEventWithoutItsStack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		var lines logLines
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) { panic("boom") }),
			WithBackoff(time.Minute, time.Minute), WithEventRecorder(&told))
		must(t, err)
		w.run(logging{c, lines.logger()})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "an event", func() bool { return len(told.with("Panicked")) == 1 })
		if one := told.with("Panicked")[0]; !strings.Contains(one.message, "panic: boom") ||
			strings.Contains(one.message, "goroutine") || strings.Contains(one.message, ".go:") {
			t.Errorf("the event says %q", one.message)
		}
		if logged := lines.with("Reconcile failed"); len(logged) != 1 ||
			!strings.Contains(logged[0]["error"].(string), ".go:") {
			t.Errorf("the log has %v, want the stack", logged)
		}
	})
}

// TestWhatIsParkedHasNoTimeAtWhichItIsDue.
func TestWhatIsParkedHasNoTimeAtWhichItIsDue(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		var lines logLines
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, TerminalError(errors.New("no such theme"))
		}), WithEventRecorder(&told))
		must(t, err)
		w.run(logging{c, lines.logger()})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "an event and a line in the log", func() bool {
			return len(told.with("Terminal")) == 1 && len(lines.with("Reconcile failed")) == 1
		})
		line := lines.with("Reconcile failed")[0]
		if _, due := line["nextDue"]; due || line["parked"] != true || strings.Contains(fmt.Sprint(line), "0001") {
			t.Errorf("the log has %v", line)
		}
		if n := len(told.with("ReconcileFailed")); n != 0 {
			t.Errorf("%d more events of the same failure", n)
		}
	})
}

// TestATeardownThatFailsIsTold about the primary that is gone.
func TestATeardownThatFailsIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, errUnwell
			}
			return Result{}, nil
		}), WithBackoff(time.Millisecond, time.Minute), WithEventRecorder(&told))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > 0 })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "an event", func() bool { return len(told.with("ReconcileFailed")) > 0 })
		if one := told.with("ReconcileFailed")[0]; one.object != "home" || one.kind != "Site" {
			t.Errorf("the event is about %q", one)
		}
	})
}

// TestAHealthyStartSaysWhenItHasSyncedAndThatItLeads, once each, and nothing else.
func TestAHealthyStartSaysWhenItHasSyncedAndThatItLeads(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		for _, name := range []string{"a", "b", "c"} {
			must(t, sites.Create(t.Context(), newSite(name, "one")))
		}
		var lines logLines
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithWorkers(3))
		must(t, err)
		w.run(logging{c, lines.logger()})
		natstest.Eventually(t, "all are reconciled", func() bool { return c.Stats().Reconciles == 3 })
		synced, leading := lines.with("Caches synced"), lines.with("Leading")
		if len(synced) != 1 || len(leading) != 1 {
			t.Fatalf("synced %v, leading %v; want one line each", synced, leading)
		}
		if line := synced[0]; line["level"] != 0.0 || line["primaries"] != 3.0 || line["sources"] != 1.0 ||
			line["took"] == nil {
			t.Errorf("synced: %v", line)
		}
		if line := leading[0]; line["level"] != 0.0 || line["term"] != 1.0 {
			t.Errorf("leading: %v", line)
		}
	})
}
