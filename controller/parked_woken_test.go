package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAParkedKeyIsWokenByAnEvent of what it owns or reads, as in controller-runtime: what it lacked may be there now.
func TestAParkedKeyIsWokenByAnEvent(t *testing.T) {
	type scene struct {
		c      *Controller[*site]
		pages  *entity.Client[*site]
		themes *entity.Client[*site]
		things *cloudtest.Listed
	}
	for name, test := range map[string]struct {
		event func(t *testing.T, s *scene)
		op    Operation
	}{
		"a theme that it reads appears": {func(t *testing.T, s *scene) {
			must(t, s.themes.Create(t.Context(), newSite("dark", "")))
		}, OperationTertiary},
		"a page that it owns appears": {func(t *testing.T, s *scene) {
			p := newSite("front", "")
			s.c.SetOwner(p, "home")
			must(t, s.pages.Create(t.Context(), p))
		}, OperationSecondary},
		"what it has behind an API drifts": {func(_ *testing.T, s *scene) {
			s.things.Resources.Store(&[]external.Resource{{ID: "one", OwnerKey: "home", Version: "1"}})
		}, OperationExternal},
		"a handler asks for it": {func(_ *testing.T, s *scene) {
			s.c.EnqueueAfter("home", OperationTertiary, time.Millisecond)
		}, OperationTertiary},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				s := &scene{pages: w.pages(), themes: w.client("Theme", "themes"), things: cloudtest.NewListed()}
				var seen calls
				lacks := errors.New("theme missing")
				c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
					if seen.count(req.Key) == 1 {
						return Result{}, TerminalError(lacks)
					}
					return Result{}, nil
				}), Owns(s.pages), OwnsExternal(external.Configure(s.things, quick)),
					Watches(s.themes, func(context.Context, *site) ([]string, error) {
						return []string{"home"}, nil
					}))
				must(t, err)
				s.c = c
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "")))
				eventuallyReason(t, sites, "home", entity.ReasonTerminal)
				test.event(t, s)
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				if n := seen.with("home", test.op); n != 1 || seen.count("home") != 2 {
					t.Errorf("reconciled for %v, want once more, for %v", seen.of("home"), test.op)
				}
				if s := c.Stats(); s.Parked != 0 {
					t.Errorf("%d keys are parked", s.Parked)
				}
			})
		})
	}
}

// TestAParkedKeyIsTriedEverMoreRarelyWhileEventsComeAllTheTime: one attempt for each step of the backoff, and one, for
// all that came meanwhile, when the pause is over.
func TestAParkedKeyIsTriedEverMoreRarelyWhileEventsComeAllTheTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, themes := w.sites(), w.client("Theme", "themes")
		var attempts []time.Time // by one worker
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			attempts = append(attempts, time.Now())
			return Result{}, TerminalError(errHopeless)
		}), WithWorkers(1), WithBackoff(100*time.Millisecond, 10*time.Second), WithResyncInterval(0),
			Watches(themes, func(context.Context, *site) ([]string, error) { return []string{"home"}, nil }))
		must(t, err)
		r := w.run(c)
		must(t, themes.Create(t.Context(), newSite("dark", "")))
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites, "home", entity.ReasonTerminal)
		began := time.Now()
		for i := 0; time.Since(began) < time.Minute; i++ {
			must(t, themes.Patch(t.Context(), "dark", fmt.Appendf(nil, `{"spec":{"title":"%d"}}`, i)))
			time.Sleep(20 * time.Millisecond)
		}
		// What came last is not lost, and Explain says when its turn is.
		var e Explanation
		natstest.Eventually(t, "no attempt runs in this instant", func() bool {
			e = c.Explain("home")
			return e.State != StateRunning && !e.DueAt.IsZero()
		})
		if e.State != StateParked || !e.Parked || e.Failures != 0 {
			t.Errorf("it is %+v, want parked, and when it is due", e)
		}
		time.Sleep(time.Until(e.DueAt) + time.Second)
		idle(t, c)
		r.halt()
		var pauses []time.Duration
		for i := 1; i < len(attempts); i++ {
			pauses = append(pauses, attempts[i].Sub(attempts[i-1]))
		}
		// The ceilings are 0.2, 0.4, 0.8, 1.6, 3.2, 6.4 and 10 s, and each pause is at least half of its own.
		if n := len(attempts); n < 9 || n > 18 {
			t.Errorf("%d attempts in a minute with an event in each 20 ms, after %v", n, pauses)
		}
		for i, pause := range pauses {
			ceiling := min(200*time.Millisecond<<min(i, 10), 10*time.Second)
			if pause < ceiling/2 || pause > ceiling+time.Second {
				t.Errorf("attempt %d came after %v, want %v to %v: %v", i+2, pause, ceiling/2, ceiling, pauses)
			}
		}
		if last := attempts[len(attempts)-1]; last.Before(e.DueAt) {
			t.Errorf("the last attempt came at %v, want one at %v", last, e.DueAt)
		}
	})
}

// TestTheCountOfTerminalErrorsBeginsAnew with a success, and when the primary changes.
func TestTheCountOfTerminalErrorsBeginsAnew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var mu sync.Mutex
		var attempts []time.Time
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(attempts)
		}
		var fails atomic.Bool
		fails.Store(true)
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, time.Now())
			if !fails.Load() {
				return Result{}, nil
			}
			return Result{}, TerminalError(errHopeless)
		}), WithWorkers(1), WithBackoff(time.Second, time.Hour), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites, "home", entity.ReasonTerminal)
		pauseAfter := func(what string, do func()) time.Duration {
			t.Helper()
			for range 8 { // the pause grows
				c.Enqueue("home", OperationManual)
				idle(t, c)
			}
			do()
			idle(t, c)
			n := count()
			c.Enqueue("home", OperationSecondary)
			natstest.Eventually(t, "it is tried again "+what, func() bool { return count() > n })
			idle(t, c)
			mu.Lock()
			defer mu.Unlock()
			return attempts[n].Sub(attempts[n-1])
		}
		var pauses []time.Duration
		pauses = append(pauses, pauseAfter("after a new revision", func() {
			n := count()
			must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"pages":1}}`)))
			natstest.Eventually(t, "the new revision is reconciled", func() bool { return count() > n })
		}))
		pauses = append(pauses, pauseAfter("after a success", func() {
			fails.Store(false)
			c.Enqueue("home", OperationManual)
			idle(t, c)
			fails.Store(true)
			c.Enqueue("home", OperationManual)
		}))
		if slices.Max(pauses) > 3*time.Second {
			t.Errorf("the pauses are %v, want two seconds at most", pauses)
		}
	})
}

// TestTheResyncOfAnInformerWakesNoParkedKey: it shows objects as they were, so it is time alone, and of the backlog.
func TestTheResyncOfAnInformerWakesNoParkedKey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		server, informer := kubeInformerOf(t, time.Second)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if req.Key == "home" {
				return Result{}, TerminalError(errHopeless)
			}
			return Result{}, nil
		}), WatchesKube(informer, func(context.Context, metav1.Object) ([]string, error) {
			return []string{"home", "other"}, nil
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		m := configMap("settings", "one")
		server.Add(m)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite("other", "")))
		natstest.Eventually(t, "both are reconciled", func() bool {
			return c.Stats().Parked == 1 && seen.count("other") > 0
		})
		idle(t, c)
		before := seen.count("home")
		natstest.Eventually(t, "the informer resyncs", func() bool { return seen.with("other", OperationResync) >= 3 })
		if n := seen.count("home"); n != before {
			t.Errorf("the parked key was reconciled %d times more: %v", n-before, seen.of("home"))
		}
		m = m.DeepCopy()
		m.Data["value"] = "two"
		server.Modify(m)
		natstest.Eventually(t, "a change wakes it", func() bool { return seen.count("home") == before+1 })
	})
}
