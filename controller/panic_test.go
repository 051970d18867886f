package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPanicInTheReconcilerIsAnErrorOfThatKeyAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		var told results
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if req.Key == "bomb" && seen.count("bomb") <= 2 {
				panic("tick tack")
			}
			return Result{}, nil
		}), WithOnResult(told.add), WithBackoff(time.Millisecond, time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("bomb", "one")))
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the other key runs, and the one that panicked again", func() bool {
			return seen.count("home") == 1 && seen.count("bomb") == 3
		})
		idle(t, c)
		panics := 0
		for _, r := range told.all() {
			if r.Err == nil {
				continue
			}
			panics++
			if text := r.Err.Error(); r.Key != "bomb" || !strings.Contains(text, "tick tack") ||
				!strings.Contains(text, "panic_test.go") {
				t.Errorf("the error of %q does not tell what panicked and where: %v", r.Key, text)
			}
		}
		if s := c.Stats(); panics != 2 || s.Failures != 2 || s.Running != 0 || s.Failing != 0 {
			t.Errorf("%d panics, stats %d failures, %d running, %d failing; want 2, 2, 0, 0", panics, s.Failures, s.Running,
				s.Failing)
		}
	})
}

func TestPanicInAMapperIsRetriedAndLosesNoEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		must(t, sites.Create(t.Context(), newSite("other", "one")))
		var mapped atomic.Int32
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithBackoff(time.Millisecond, time.Millisecond),
			Watches(pages, func(_ context.Context, p *page) ([]string, error) {
				if p.Name == "bomb" && mapped.Add(1) <= 3 {
					panic("tick tack")
				}
				return []string{p.Spec.Title}, nil
			}))
		must(t, err)
		w.run(c)
		must(t, pages.Create(t.Context(), newSite("bomb", "home")))
		must(t, pages.Create(t.Context(), newSite("page", "other")))
		natstest.Eventually(t, "the event of the panic reaches its primary, and another its own", func() bool {
			return seen.with("home", OperationTertiary) == 1 && seen.with("other", OperationTertiary) == 1
		})
		if n := c.Stats().MapperErrors; n != 3 {
			t.Errorf("%d errors of mappers counted, want three", n)
		}
	})
}

func TestPanicInAPredicateLetsTheEventPass(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		panics := ObjectPredicate(func(metav1.Object) bool { panic("tick tack") })
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithPrimary(WithPredicate(panics)),
			Owns(pages, WithPredicate(panics)))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the primary is reconciled", func() bool { return seen.with("home", OperationPut) == 1 })
		p := newSite("page", "one")
		c.SetOwner(p, "home")
		must(t, pages.Create(t.Context(), p))
		natstest.Eventually(t, "so is the owner of a secondary", func() bool {
			return seen.with("home", OperationSecondary) == 1
		})
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"pages":1}}`)))
		natstest.Eventually(t, "and an update", func() bool { return seen.with("home", OperationPut) == 2 })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "and a delete", func() bool { return seen.with("home", OperationDelete) == 1 })
	})
}

func TestPanicInACallbackStopsNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		opt  Option
	}{
		{"result", WithOnResult(func(ReconcileResult) { panic("tick tack") })},
		{"error policy", WithErrorPolicy(func(string, error, int) Result { panic("tick tack") })},
		{"log constructor", WithLogConstructor(func(logr.Logger, Request) logr.Logger { panic("tick tack") })},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
					if seen.count(req.Key) < 3 {
						return Result{}, errUnwell
					}
					return Result{}, nil
				}), test.opt, WithBackoff(time.Millisecond, time.Millisecond))
				must(t, err)
				w.run(c)
				for _, key := range []string{"home", "away"} {
					must(t, sites.Create(t.Context(), newSite(key, "one")))
					natstest.Eventually(t, "it is retried until it succeeds", func() bool {
						return seen.count(key) == 3
					})
				}
				idle(t, c)
				if s := c.Stats(); s.Reconciles != 6 || s.Failures != 4 || s.Failing != 0 {
					t.Errorf("%d reconciles, %d failures, %d failing; want 6, 4, 0", s.Reconciles, s.Failures, s.Failing)
				}
			})
		})
	}
}
