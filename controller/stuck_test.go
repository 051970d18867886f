package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// hang is where a reconcile of these tests does not return from.
//
//go:noinline
func hang(until <-chan struct{}) { <-until }

func TestAReconcileThatDoesNotReturnIsToldWithItsStack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		var lines logLines
		release := make(chan struct{})
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Key == "stuck" {
				hang(release)
			}
			return Result{}, nil
		}), WithWorkers(3), WithStuckAfter(300*time.Millisecond), WithEventRecorder(&told))
		must(t, err)
		w.run(logging{c, lines.logger()})
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		if longest := c.Stats().LongestRunning; longest != (LongestRunning{}) {
			t.Errorf("nothing runs, and the longest is %v", longest)
		}
		began := time.Now()
		must(t, sites.Create(t.Context(), newSite("stuck", "one")))
		natstest.Eventually(t, "Stats show it", func() bool { return c.Stats().LongestRunning.Key == "stuck" })
		if longest := c.Stats().LongestRunning; longest.Since.Before(began) || longest.Attempt != 1 {
			t.Errorf("the longest is %v", longest)
		}
		must(t, sites.Create(t.Context(), newSite("other", "one")))
		time.Sleep(300*time.Millisecond - time.Since(began) - time.Nanosecond)
		if err := c.Stats().Degraded["stuck reconcile"]; err != nil {
			t.Errorf("degraded early: %v", err)
		}
		time.Sleep(2 * time.Second)
		var problem *Problem
		if err := c.Stats().Degraded["stuck reconcile"]; !errors.As(err, &problem) || problem.Since.Before(began) ||
			!strings.Contains(err.Error(), `1 of 3 workers`) || !strings.Contains(err.Error(), `Site "stuck"`) {
			t.Errorf("degraded: %v", err)
		}
		natstest.Eventually(t, "the log and an event tell of it", func() bool {
			return len(lines.with("Reconcile is stuck")) == 1 && len(told.with("ReconcileStuck")) == 1
		})
		line := lines.with("Reconcile is stuck")[0]
		if text, _ := line["error"].(string); line["key"] != "stuck" || !strings.Contains(text, "controller.hang (") ||
			!strings.Contains(text, "stuck_test.go:") || strings.Contains(text, "internal/engine") {
			t.Errorf("the log has %v, want the stack of the reconciler", line)
		}
		if one := told.with("ReconcileStuck")[0]; one.object != "stuck" || strings.Contains(one.message, "stuck_test.go") {
			t.Errorf("the event is %q, want no stack in it", one)
		}
		time.Sleep(time.Minute) // many looks later
		if n := len(lines.with("Reconcile is stuck")); n != 1 {
			t.Errorf("%d warnings of one reconcile", n)
		}
		close(release)
		natstest.Eventually(t, "all is well", func() bool {
			s := c.Stats()
			return len(s.Degraded) == 0 && s.LongestRunning == (LongestRunning{})
		})
	})
}

func TestNoReconcileIsStuckIfNobodyWantsToKnow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		c, err := New("sites", sites, g, WithStuckAfter(0), shortGrace())
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		g.enter(t)
		time.Sleep(10 * time.Minute)
		for _, name := range []string{"stuck reconcile", "stuck callback"} {
			if degraded := c.Stats().Degraded[name]; degraded != nil {
				t.Errorf("%s is degraded: %v", name, degraded)
			}
		}
		g.leave <- nil
		_, err = New("sites", sites, g, WithStuckAfter(-1))
		if err == nil || !strings.Contains(err.Error(), "WithStuckAfter") {
			t.Errorf("a negative duration: %v", err)
		}
	})
}

// TestACallbackThatDoesNotReturnIsDegraded: its worker stands still, and no reconcile runs that would show.
func TestACallbackThatDoesNotReturnIsDegraded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		release := make(chan struct{})
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithStuckAfter(300*time.Millisecond),
			WithOnResult(func(ReconcileResult) { hang(release) }))
		must(t, err)
		w.run(c)
		began := time.Now()
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		time.Sleep(300*time.Millisecond - time.Nanosecond - time.Since(began))
		if err := c.Stats().Degraded["stuck callback"]; err != nil {
			t.Errorf("degraded early: %v", err)
		}
		time.Sleep(2 * time.Second)
		var problem *Problem
		if err := c.Stats().Degraded["stuck callback"]; !errors.As(err, &problem) || problem.Since.Before(began) ||
			!strings.Contains(err.Error(), "WithOnResult") {
			t.Errorf("degraded: %v", err)
		}
		close(release)
		natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
	})
}

// TestAnOnWriteThatDoesNotReturnWhileARecordIsWrittenIsDegraded: no reconcile runs that would show.
func TestAnOnWriteThatDoesNotReturnWhileARecordIsWrittenIsDegraded(t *testing.T) {
	for name, test := range map[string]struct {
		before  bool  // the document is there before the controller, so that the key is one of a backlog
		writes  int32 // of records, before the one that hangs
		atTheir string
	}{
		"of the backlog": {before: true, writes: 0, atTheir: "begin"},
		"ahead of it":    {writes: 0, atTheir: "begin"},
		"of what came":   {writes: 1, atTheir: "begin"},
		"at its end":     {writes: 1, atTheir: "end"},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				release := make(chan struct{})
				var records atomic.Int32
				sites := w.client("Site", "sites", func(cfg *entity.Config) {
					cfg.OnWrite = func(_ context.Context, w entity.Write) (nats.Header, func(error)) {
						if !w.Record || records.Add(1) != test.writes+1 {
							return nil, nil
						}
						if test.atTheir == "begin" {
							hang(release)
							return nil, nil
						}
						return nil, func(error) { hang(release) }
					}
				})
				if test.before {
					must(t, sites.Create(t.Context(), newSite("home", "one")))
				}
				c, err := New("sites", sites, (&calls{}).reconciler(nil), WithStuckAfter(300*time.Millisecond))
				must(t, err)
				w.run(c)
				natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
				if !test.before {
					must(t, sites.Create(t.Context(), newSite("home", "one")))
				}
				natstest.Eventually(t, "it is degraded", func() bool {
					return c.Stats().Degraded["stuck callback"] != nil
				})
				if err := c.Stats().Degraded["stuck callback"]; !strings.Contains(err.Error(), "Config.OnWrite") {
					t.Errorf("degraded: %v", err)
				}
				close(release)
				natstest.Eventually(t, "all is well", func() bool {
					return len(c.Stats().Degraded) == 0 && c.Stats().Reconciles > 0
				})
			})
		})
	}
}
