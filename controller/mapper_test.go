package controller

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// byTitle maps a page to the site that its title names.
func byTitle(_ context.Context, p *page) ([]string, error) { return []string{p.Spec.Title}, nil }

func TestMapperErrorsAreRetriedAndTheEventIsNotLost(t *testing.T) {
	for what, fail := range map[string]func() error{
		"errors": func() error { return errUnwell },
		"panics": func() error { panic("tick tack") },
	} {
		t.Run(what, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
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
					WatchesKube(k.informer, func(_ context.Context, obj metav1.Object) ([]string, error) {
						return keys("away")
					}))
				ctx := t.Context()
				// The delete is the only event that is left of this page, and its object is gone from the cache.
				must(t, pages.Create(ctx, newSite("page", "home")))
				natstest.Eventually(t, "it is known", func() bool { return failed.Load() > 0 })
				must(t, pages.Delete(ctx, "page"))
				m := configMap("settings", "one")
				k.Add(m)
				k.FakeControllerSource.Delete(m.DeepCopy())
				natstest.Eventually(t, "the mappers have failed for every event, and again", func() bool {
					return failed.Load() >= 12
				})
				if n := seen.count("home") + seen.count("away"); n != 2 {
					t.Errorf("%d reconciles while the mappers fail, want the first two", n)
				}
				if c.Stats().MapperErrors == 0 {
					t.Error("no error of a mapper is counted")
				}
				ill.Store(false)
				natstest.Eventually(t, "all events arrive", func() bool {
					return seen.with("home", OperationTertiary) >= 1 && seen.with("away", OperationTertiary) >= 1
				})
			})
		})
	}
}

// TestMapperOnUpdateSeesOldAndNewOwnersAndKeysAreEnqueuedOnce holds the worker, so that each enqueueing would be seen.
func TestMapperOnUpdateSeesOldAndNewOwnersAndKeysAreEnqueuedOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		natstest.Eventually(t, "created", times(1, 0))
		must(t, pages.Patch(ctx, "page", []byte(`{"spec":{"pages":1}}`)))
		natstest.Eventually(t, "updated and still home's", times(2, 0))
		must(t, pages.Patch(ctx, "page", []byte(`{"spec":{"title":"away"}}`)))
		natstest.Eventually(t, "moved: both", times(3, 1))
		m := configMap("settings", "one")
		m.Labels = map[string]string{"site": "home"}
		k.Add(m)
		natstest.Eventually(t, "created", times(4, 1))
		m = m.DeepCopy()
		m.Labels["site"] = "away"
		k.Modify(m)
		natstest.Eventually(t, "moved: both", times(5, 2))
	})
}

// TestMapperThatHangsHoldsUpNeitherOthersNorTheStop: its context ends with the controller.
func TestMapperThatHangsHoldsUpNeitherOthersNorTheStop(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		natstest.Eventually(t, "primaries go on", func() bool { return seen.with("home", OperationPut) == 2 })
		must(t, routes.Create(t.Context(), newSite("route", "away")))
		natstest.Eventually(t, "other sources go on", func() bool { return seen.with("away", OperationTertiary) == 1 })
		r.halt()
	})
}
