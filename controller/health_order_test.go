package controller

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// tapped is a client that shows what its user hears of its buckets by. The user hears of their health from the test
// alone.
type tapped struct {
	*entity.Client[*page]
	hooks entity.Hooks
}

func (c *tapped) EnginePort() entity.EnginePort[*page] { return tappedPort{c.Client.EnginePort(), c} }

type tappedPort struct {
	entity.EnginePort[*page]
	of *tapped
}

func (p tappedPort) Subscribe(hooks entity.Hooks) func() {
	p.of.hooks = hooks
	hooks.Error = func(string, error) {}
	return p.EnginePort.Subscribe(hooks)
}

// TestReportsOfHealthComeInOrder: two buckets of one source tell of failures and of their ends at the same time, and
// the last report is true.
func TestReportsOfHealthComeInOrder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := &tapped{Client: w.pages()}
		var mu sync.Mutex
		var told []error
		const name = "Owns Page (bucket pages)" // others may be away for a moment, as every watch that hears nothing
		c, err := New("sites", w.sites(), noReconciler, Owns(pages), WithOnSourceError(func(source string, err error) {
			if source != name {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		}))
		must(t, err)
		w.run(slowLog{c})
		natstest.Eventually(t, "it runs", func() bool { return c.Stats().Sweeps > 0 })
		for range 200 {
			var both sync.WaitGroup
			for _, bucket := range []string{"pages", "pages-status"} {
				both.Go(func() {
					pages.hooks.Error(bucket, jetstream.ErrBucketNotFound)
					pages.hooks.Error(bucket, nil)
				})
			}
			both.Wait()
			if degraded := c.Stats().Degraded[name]; degraded != nil {
				t.Fatalf("both buckets are healthy, but Stats say %v", degraded)
			}
		}
		last := errors.New("the last")
		pages.hooks.Error("pages", last)
		natstest.Eventually(t, "the last is told", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(told) > 0 && errors.Is(told[len(told)-1], last)
		})
		if n := len(told); n < 3 {
			t.Errorf("only %d reports were told", n)
		} else if told[n-2] != nil {
			t.Errorf("before the last report both buckets were healthy, but the one before it was %v", told[n-2])
		}
	})
}

// slowLog runs a controller whose log is slow, so that reports at the same time wait for each other.
type slowLog struct{ c *Controller[*site] }

func (s slowLog) Run(ctx context.Context) error {
	log := funcr.New(func(string, string) {
		for range 20 {
			runtime.Gosched()
		}
	}, funcr.Options{})
	return s.c.Run(klog.NewContext(ctx, log))
}
