package controllerruntime

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// byTitle maps a page to the site that its title names.
func byTitle(_ context.Context, p *page) ([]string, error) { return []string{p.Spec.Title}, nil }

func TestMapperErrorsAreRetriedAndTheEventIsNotLost(t *testing.T) {
	for what, fail := range map[string]func() error{
		"errors": func() error { return errUnwell },
		"panics": func() error { panic("tick tack") },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			pages := w.pages()
			k := newCluster(t)
			var seen calls
			var ill atomic.Bool
			var failed atomic.Int32
			ill.Store(true)
			keys := func(keys ...string) ([]string, error) {
				if ill.Load() {
					failed.Add(1)
					return nil, fail()
				}
				return keys, nil
			}
			c, _, _ := w.runningSites(&seen,
				Watches(pages, func(_ context.Context, p *page) ([]string, error) { return keys(p.Spec.Title) }),
				WatchesKube(k.informer, func(_ context.Context, obj metav1.Object) ([]string, error) { return keys("away") }))
			ctx := t.Context()
			// The delete is the only event that is left of this page, and its object is gone from the cache.
			must(t, pages.Create(ctx, newSite("page", "home")))
			eventually(t, "it is known", func() bool { return failed.Load() > 0 })
			must(t, pages.Delete(ctx, "page"))
			m := configMap("settings", "one")
			k.Add(m)
			k.FakeControllerSource.Delete(m.DeepCopy())
			eventually(t, "the mappers have failed for every event, and again", func() bool { return failed.Load() >= 12 })
			if n := seen.count("home") + seen.count("away"); n != 2 {
				t.Errorf("%d reconciles while the mappers fail, want the first two", n)
			}
			if c.Stats().MapperErrors == 0 {
				t.Error("no error of a mapper is counted")
			}
			ill.Store(false)
			eventually(t, "all events arrive", func() bool {
				return seen.with("home", OperationTertiary) >= 1 && seen.with("away", OperationTertiary) >= 1
			})
		})
	}
}

// TestMapperOnUpdateSeesOldAndNewOwnersAndKeysAreEnqueuedOnce holds the worker, so that each enqueueing would be seen.
func TestMapperOnUpdateSeesOldAndNewOwnersAndKeysAreEnqueuedOnce(t *testing.T) {
	w := newWorld(t)
	pages := w.pages()
	k := newCluster(t)
	var seen calls
	w.runningSites(&seen,
		Watches(pages, func(ctx context.Context, p *page) ([]string, error) {
			return []string{p.Spec.Title, p.Spec.Title, p.Spec.Title}, nil
		}),
		WatchesKube(k.informer, func(_ context.Context, obj metav1.Object) ([]string, error) {
			return []string{obj.GetLabels()["site"]}, nil
		}))
	times := func(home, away int) func() bool {
		return func() bool {
			return seen.with("home", OperationTertiary) == home && seen.with("away", OperationTertiary) == away
		}
	}
	ctx := t.Context()
	must(t, pages.Create(ctx, newSite("page", "home")))
	eventually(t, "created", times(1, 0))
	must(t, pages.Patch(ctx, "page", []byte(`{"spec":{"pages":1}}`)))
	eventually(t, "updated and still home's", times(2, 0))
	must(t, pages.Patch(ctx, "page", []byte(`{"spec":{"title":"away"}}`)))
	eventually(t, "moved: both", times(3, 1))
	m := configMap("settings", "one")
	m.Labels = map[string]string{"site": "home"}
	k.Add(m)
	eventually(t, "created", times(4, 1))
	m = m.DeepCopy()
	m.Labels["site"] = "away"
	k.Modify(m)
	eventually(t, "moved: both", times(5, 2))
}

// TestMapperThatHangsHoldsUpNeitherOthersNorTheStop: its context ends with the controller.
func TestMapperThatHangsHoldsUpNeitherOthersNorTheStop(t *testing.T) {
	w := newWorld(t)
	pages, routes := w.pages(), w.client("Route", "routes")
	entered := make(chan struct{})
	var seen calls
	_, sites, r := w.runningSites(&seen,
		Watches(pages, func(ctx context.Context, _ *page) ([]string, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		Watches(routes, byTitle))
	must(t, pages.Create(t.Context(), named("page")))
	receive(t, "the mapper hangs", entered)
	must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"pages":1}}`)))
	eventually(t, "primaries go on", func() bool { return seen.with("home", OperationPut) == 2 })
	must(t, routes.Create(t.Context(), newSite("route", "away")))
	eventually(t, "other sources go on", func() bool { return seen.with("away", OperationTertiary) == 1 })
	r.halt()
}

// TestAMapperThatKeepsFailingTakesBoundedMemory: an object that changes often is not remembered once for each change, but
// nobody whom it ever concerned is forgotten.
func TestAMapperThatKeepsFailingTakesBoundedMemory(t *testing.T) {
	w := newWorld(t)
	sites := w.sites()
	var ill atomic.Bool
	ill.Store(true)
	c, err := New("sites", sites, noReconciler, WithBackoff(time.Millisecond, 5*time.Millisecond))
	must(t, err)
	e := c.engine
	e.mappings = newMappings(e.opts.backoffMin, e.opts.backoffMax)
	e.standby.set(false)
	quiet := klog.NewContext(t.Context(), logr.Discard())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.mappings.run(quiet)
	}()
	s := &events{engine: e, source: e.primary, operation: OperationTertiary, keys: func(_ context.Context, obj metav1.Object) ([]string, error) {
		if ill.Load() {
			return nil, errUnwell
		}
		return []string{obj.(*page).Spec.Title}, nil
	}}
	const changes = 2000
	title := func(n int) string { return fmt.Sprint("site-", n) }
	last := newSite("page", title(0))
	s.created(quiet, last, false)
	for n := range changes {
		next := newSite("page", title(n+1))
		s.updated(quiet, last, next)
		last = next
	}
	states := 0
	e.mappings.mu.Lock()
	for _, waits := range e.mappings.waiting {
		states += len(waits.objects)
	}
	e.mappings.mu.Unlock()
	if states > 2*mappingStatesKept {
		t.Errorf("%d states of one object are remembered, want at most %d", states, mappingStatesKept)
	}
	ill.Store(false)
	for _, key := range []string{title(0), title(changes)} {
		eventually(t, "who was concerned first and last is due", func() bool { return e.queue.Pending(key).Has(OperationTertiary) })
	}
	e.mappings.stop()
	<-done
	e.queue.ShutDown()
}

// TestStatesThatWaitForAMapperStayInOrder: what fails while an older one is tried is the newer one all the same.
func TestStatesThatWaitForAMapperStayInOrder(t *testing.T) {
	m := newMappings(time.Hour, time.Hour)
	defer m.retries.ShutDown()
	s := &events{}
	of := func(title string) *mapping {
		return &mapping{events: s, objects: []metav1.Object{newSite("page", title)}}
	}
	m.again(of("one"))
	m.again(of("two"))
	tried := m.take(of("").id())
	m.again(of("three"))
	m.again(tried)
	m.again(of("four"))
	var order []string
	for _, obj := range m.take(of("").id()).objects {
		order = append(order, obj.(*page).Spec.Title)
	}
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	if m.take(of("").id()) != nil {
		t.Error("what was taken is still there")
	}
}
