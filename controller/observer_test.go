package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// watcher is an observer that notes what it is told, in the order of the calls of all watchers of a log.
type watcher struct {
	name  string
	log   *watchLog
	begin func(context.Context) context.Context
	end   func()
}

type watchLog struct {
	mu     sync.Mutex
	lines  []string
	ends   []Ending
	begins []Beginning
}

type watcherKey string

func (w *watcher) Begin(ctx context.Context, b Beginning) context.Context {
	w.log.mu.Lock()
	w.log.lines = append(w.log.lines, w.name+" begins "+b.Key)
	w.log.begins = append(w.log.begins, b)
	w.log.mu.Unlock()
	if w.begin != nil {
		return w.begin(ctx)
	}
	return context.WithValue(ctx, watcherKey(w.name), b.Key)
}

func (w *watcher) End(ctx context.Context, e Ending) {
	w.log.mu.Lock()
	w.log.lines = append(w.log.lines, fmt.Sprintf("%s ends %v", w.name, ctx.Value(watcherKey(w.name))))
	w.log.ends = append(w.log.ends, e)
	w.log.mu.Unlock()
	if w.end != nil {
		w.end()
	}
}

func (l *watchLog) endings() []Ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ends)
}

// TestAnObserverIsToldOfEachReconcile and its context is that of the reconcile, in which helpers find the reconcile.
func TestAnObserverIsToldOfEachReconcile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var log watchLog
		first, second := &watcher{name: "first", log: &log}, &watcher{name: "second", log: &log}
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			for _, name := range []string{"first", "second"} {
				if got := ctx.Value(watcherKey(name)); got != req.Key {
					t.Errorf("the reconcile's context has %v of the %s observer", got, name)
				}
			}
			if req.Operations.Has(OperationDelete) {
				return Result{}, nil
			}
			time.Sleep(3 * time.Second)
			obj, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			changed := obj.DeepCopy()
			changed.Status.Ready = true
			return Result{RequeueAfter: time.Hour}, SetStatus(ctx, changed)
		}), WithObserver(first), WithObserver(second), WithReconcileTimeout(time.Minute))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		time.Sleep(time.Second)
		must(t, sites.Create(t.Context(), newSite("next", "one"))) // which waits for the one worker
		natstest.Eventually(t, "both reconciles were observed", func() bool { return len(log.endings()) == 4 })
		want := []string{"first begins home", "second begins home", "second ends home", "first ends home",
			"first begins next", "second begins next", "second ends next", "first ends next"}
		if !slices.Equal(log.lines, want) {
			t.Errorf("told %q, want %q", log.lines, want)
		}
		b, e := log.begins[0], log.endings()[0]
		if b.Attempt != 1 || !b.Operations.Has(OperationPut) || b.Waited != 0 || log.begins[2].Waited != 2*time.Second {
			t.Errorf("began %+v, and %+v", b, log.begins[2])
		}
		if e.Key != "home" || e.Attempt != 1 || e.Err != nil || e.Took != 3*time.Second || e.RequeueAfter != time.Hour {
			t.Errorf("ended %+v", e)
		}
		natstest.Eventually(t, "the status that the reconcile set is written", func() bool {
			obj, err := sites.Lister().Get("home")
			return err == nil && obj.Status.Ready
		})
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown was observed", func() bool {
			ends := log.endings()
			return len(ends) >= 6 && ends[len(ends)-1].Operations.Has(OperationDelete)
		})
	})
}

// TestAnObserverHearsHowAReconcileFailed.
func TestAnObserverHearsHowAReconcileFailed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var log watchLog
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			switch req.Key {
			case "panics":
				panic("oh")
			case "parks":
				return Result{}, TerminalError(errors.New("never"))
			}
			return Result{}, errors.New("not now")
		}), WithObserver(&watcher{name: "it", log: &log}), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		for _, name := range []string{"fails", "panics", "parks"} {
			must(t, sites.Create(t.Context(), newSite(name, "one")))
		}
		natstest.Eventually(t, "all three were observed", func() bool { return len(log.endings()) == 3 })
		for _, e := range log.endings() {
			if e.Err == nil || e.Waits || e.Panicked != (e.Key == "panics") || e.Terminal != (e.Key == "parks") {
				t.Errorf("ended %+v", e)
			}
		}
	})
}

// TestWhatAnObserverDoesWrongHarmsNoReconcile: panics, and contexts that are none or a stranger's.
func TestWhatAnObserverDoesWrongHarmsNoReconcile(t *testing.T) {
	for name, observer := range map[string]*watcher{
		"panic in Begin": {begin: func(context.Context) context.Context { panic("oh") }},
		"panic in End":   {end: func() { panic("oh") }},
		"nil context":    {begin: func(context.Context) context.Context { return nil }},
		"other context":  {begin: func(context.Context) context.Context { return context.Background() }},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var log watchLog
				observer.log, observer.name = &log, "wrong"
				right := &watcher{name: "right", log: &log}
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					if ctx.Value(watcherKey("right")) != req.Key {
						t.Error("the context of the other observer is lost")
					}
					obj, err := sites.Lister().Get(req.Key)
					if err != nil {
						return Result{}, err
					}
					obj = obj.DeepCopy()
					obj.Status.Ready = true
					return Result{}, SetStatus(ctx, obj)
				}), WithObserver(observer), WithObserver(right))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				natstest.Eventually(t, "the reconcile succeeded, and the other observer heard of it", func() bool {
					obj, err := sites.Lister().Get("home")
					ends := log.endings()
					told := 2 // both, but for one that has not begun
					if name == "panic in Begin" {
						told = 1
					}
					return err == nil && obj.Status.Ready && c.Stats().Reconciles > 0 && len(ends) >= told && ends[0].Err == nil
				})
				if s := c.Stats(); s.Failures > 0 {
					t.Errorf("%d failures", s.Failures)
				}
			})
		})
	}
}

// TestNoObserverIsNil.
func TestNoObserverIsNil(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := New("sites", w.sites(), ReconcilerFunc(nil), WithObserver(nil)); err == nil {
			t.Error("a nil observer is taken")
		}
	})
}

// TestAReconcileHasNotWaitedWhileAnotherReplicaLed: the key was reconciled then, and nothing waited for a worker.
func TestAReconcileHasNotWaitedWhileAnotherReplicaLed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		timing := WithLeaseTiming(longLease)
		var seen calls
		sites := w.sites()
		leader, err := New("sites", sites, seen.reconciler(nil), timing)
		must(t, err)
		r := w.run(leader)
		natstest.Eventually(t, "the first leads", func() bool { return leader.Stats().Leading })
		var log watchLog
		begun := make(chan time.Time, 1)
		second := &watcher{name: "second", log: &log, begin: func(ctx context.Context) context.Context {
			select {
			case begun <- time.Now():
			default:
			}
			return ctx
		}}
		waiting, err := New("sites", w.sites(), seen.reconciler(nil), timing, WithObserver(second))
		must(t, err)
		w.run(waiting)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the second knows it", func() bool { return waiting.Explain("home").Reasons != "" })
		time.Sleep(time.Minute) // on standby
		handedOver := time.Now()
		r.halt()
		began := <-begun
		log.mu.Lock()
		defer log.mu.Unlock()
		if b := log.begins[0]; b.Waited > began.Sub(handedOver) {
			t.Errorf("it waited %v of the %v since the first stopped", b.Waited, began.Sub(handedOver))
		}
	})
}

// TestATerminalErrorThatCameTooLateIsStillTheOneThatItWas, to errors.Is and errors.As, but parks nothing.
func TestATerminalErrorThatCameTooLateIsStillTheOneThatItWas(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var log watchLog
		unwell := &pathError{"no rights"}
		begun := make(chan struct{})
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			close(begun)
			<-ctx.Done()
			return Result{}, TerminalError(fmt.Errorf("late: %w", unwell))
		}), WithObserver(&watcher{name: "it", log: &log}), slowRenewal)
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		<-begun
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "it has ended", func() bool { return len(log.endings()) > 0 })
		e := log.endings()[0]
		if as, ok := errors.AsType[*pathError](e.Err); !ok || as != unwell || !errors.Is(e.Err, unwell) {
			t.Errorf("it is no longer what it was: %v", e.Err)
		}
		if e.Terminal || !errors.Is(e.Err, ErrLeaseLost) || !strings.HasSuffix(e.Err.Error(), ErrLeaseLost.Error()) ||
			!strings.HasPrefix(e.Err.Error(), "terminal error: late: no rights, after the term had ended: ") {
			t.Errorf("terminal: %v, %v", e.Terminal, e.Err)
		}
	})
}

type pathError struct{ says string }

func (e *pathError) Error() string { return e.says }
