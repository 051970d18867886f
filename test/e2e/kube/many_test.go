package kube

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	corev1 "k8s.io/api/core/v1"
)

// TestManyObjectsAreCalm prints what 5,000 objects cost: requests while nothing changes, for a change, and after a
// restart, and heap. -v shows it.
func TestManyObjectsAreCalm(t *testing.T) {
	const (
		count  = 5000
		resync = 10 * time.Second // a shorter one keeps a busy machine at it without a pause
	)
	w := newWorld(t)
	var inserts sync.WaitGroup
	for worker := range 8 {
		inserts.Go(func() {
			for i := worker; i < count; i += 8 {
				if err := w.sites.Create(t.Context(), newSite(fmt.Sprint("site-", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	inserts.Wait()
	run := func() (*controller.Controller[*site], *running) {
		informer := w.typed()
		maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer)
		must(t, err)
		w.start(informer)
		sites := w.newSites()
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				s, err := sites.Lister().Get(req.Key)
				if err != nil {
					return controller.Result{}, err
				}
				_, err = maps.Apply(ctx, w.configMap(req.Key, s.Spec.Title))
				return controller.Result{}, err
			}), maps.Owns(), controller.WithResyncInterval(resync), controller.WithWorkers(8))
		must(t, err)
		return c, w.run(c)
	}
	requests := func(what string, most int, during func()) {
		before := w.requests.all()
		during()
		n := w.requests.all() - before
		t.Logf("%s: %d requests", what, n)
		if n > most {
			t.Errorf("%s: %d requests, want at most %d", what, n, most)
		}
	}
	reconciled := func(c *controller.Controller[*site], most uint64) {
		eventuallyWithin(t, 5*time.Minute, "all are reconciled, and nothing is to be done", func() bool {
			s := c.Stats()
			return s.Reconciles >= most && s.Running == 0 && s.Ready == [3]int{}
		})
	}
	c, r := run()
	requests("new", count+10, func() { reconciled(c, count) })
	requests(fmt.Sprint("two resyncs, one each ", resync), 0, func() { reconciled(c, 3*count) })
	requests("100 documents change", 100, func() {
		done := c.Stats().Reconciles
		for i := range 100 {
			must(t, w.sites.Patch(t.Context(), fmt.Sprint("site-", i), []byte(`{"spec":{"title":"two"}}`)))
		}
		reconciled(c, done+100)
	})
	r.halt()
	before := heap()
	requests("a restart", 10, func() {
		c, _ = run()
		reconciled(c, count)
	})
	t.Logf("heap of the documents, records, ConfigMaps and what is known of them: %d B for each",
		(heap()-before)/count)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
