package controllerruntime

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// watcher is an observer that remembers whom it observes, and how many reconciles it has seen.
type watcher struct {
	mu    sync.Mutex
	stats []func() controller.Stats
	ended int
}

func (o *watcher) Attach(_ string, stats func() controller.Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats = append(o.stats, stats)
}

func (o *watcher) Begin(ctx context.Context, _ controller.Beginning) context.Context { return ctx }

func (o *watcher) End(context.Context, controller.Ending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended++
}

func (o *watcher) seen() (stats []func() controller.Stats, ended int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats, o.ended
}

// tracing is a watcher that wants to know causes, and of Run.
type tracing struct {
	watcher
	runs int
}

func (*tracing) TakesCauses() bool { return true }

func (o *tracing) BeginRun(ctx context.Context) context.Context {
	o.runs++
	return ctx
}

// TestKumoriAttachesAnObserverOnce, to the engine that runs, though each call of WithOptions makes another one.
func TestKumoriAttachesAnObserverOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(nil)
		plain, causes := &watcher{}, &tracing{}
		must(t, c.WithOptions(controller.WithObserver(plain)))
		must(t, c.WithOptions(controller.WithObserver(causes)))
		must(t, c.WithOptions(controller.WithBackoff(time.Second, time.Second)))
		if !c.engine.Traced() {
			t.Error("nobody asks for the causes")
		}
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "both have seen the reconcile", func() bool {
			_, first := plain.seen()
			_, second := causes.seen()
			return first > 0 && second > 0
		})
		for name, o := range map[string]*watcher{"plain": plain, "causes": &causes.watcher} {
			if stats, _ := o.seen(); len(stats) != 1 || !stats[0]().Leading || stats[0]().Workers != 2 {
				t.Errorf("%s: it observes %d engines", name, len(stats))
			}
		}
		r.halt()
		if causes.runs != 1 {
			t.Errorf("it was told %d times that Run begins", causes.runs)
		}
		if stats, _ := plain.seen(); !stats[0]().Ended {
			t.Error("it does not say that it has ended")
		}
	})
}
