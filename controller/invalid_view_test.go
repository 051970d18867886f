package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestADocumentThatIsOnItsWayToTheCacheIsNotCalledInvalid: another event of its key may be faster than its own.
func TestADocumentThatIsOnItsWayToTheCacheIsNotCalledInvalid(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const keys = 8
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithWorkers(4), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		watch, err := w.kv("sites-status").WatchAll(t.Context(), jetstream.UpdatesOnly())
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var looking sync.WaitGroup
		looking.Go(func() {
			for ctx.Err() == nil {
				for n := range keys {
					key := keyNumber(n)
					c.Enqueue(key, OperationSecondary)
					for range 100 {
						if c.Explain(key).State == StateInvalid {
							t.Errorf("%s is called invalid", key)
							return
						}
					}
				}
				runtime.Gosched() // all goes on without that time moves
			}
		})
		other := w.away().sites()
		for range 5 {
			for n := range keys {
				if key := keyNumber(n); other.Create(ctx, newSite(key, "one")) != nil {
					_ = other.Delete(ctx, key)
				}
			}
		}
		cancel()
		looking.Wait()
		must(t, sites.Create(t.Context(), newSite("last", "one")))
		for last := false; !last; {
			u := receive(t, "a write of a record", watch.Updates())
			if strings.Contains(string(u.Value()), entity.ReasonInvalid) {
				t.Fatalf("%s: %s", u.Key(), u.Value())
			}
			last = u.Key() == "last"
		}
	})
}

// TestAMendedDocumentIsReconciledWhateverPredicatesSay, because the event that mends it may come when its key was
// already looked at as mended.
func TestAMendedDocumentIsReconciledWhateverPredicatesSay(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var title atomic.Value
		title.Store("")
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if s, err := sites.Lister().Get(req.Key); err == nil {
				title.Store(s.Spec.Title)
			}
			return Result{}, nil
		}), WithResyncInterval(0), WithPrimary(WithPredicate(PredicateFuncs{UpdateFunc: func(_, _ metav1.Object) bool {
			return false
		}})))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "0")))
		for n := range 10 {
			w.put("sites", "home", `{"spec":{"title":`)
			eventuallyReason(t, sites, "home", entity.ReasonInvalid)
			want := fmt.Sprint(n)
			w.put("sites", "home", fmt.Sprintf(`{"spec":{"title":%q}}`, want))
			natstest.Eventually(t, "the mended document is reconciled", func() bool { return title.Load() == want })
		}
	})
}

// TestAParkedKeyWakesInARecreatedStream, although its document has the revision there that the bad one had.
func TestAParkedKeyWakesInARecreatedStream(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if s, err := sites.Lister().Get(req.Key); err == nil && s.Spec.Title == "bad" {
				return Result{}, TerminalError(errors.New("bad"))
			}
			return Result{}, nil
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "bad")))
		natstest.Eventually(t, "it is parked", func() bool { return c.Stats().Parked == 1 })
		stream, err := w.js.Stream(t.Context(), "KV_sites")
		must(t, err)
		must(t, w.js.DeleteStream(t.Context(), "KV_sites"))
		_, err = w.js.CreateStream(t.Context(), stream.CachedInfo().Config)
		must(t, err)
		w.put("sites", "home", `{"spec":{"title":"good"}}`)
		natstest.Eventually(t, "it is reconciled", func() bool {
			return c.Stats().Parked == 0 && seen.count("home") > 1
		})
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
	})
}

// TestAClosedClientIsReported.
func TestAClosedClientIsReported(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, new(calls).reconciler(nil), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles == 1 })
		sites.Close()
		natstest.Eventually(t, "it is reported", func() bool {
			for _, err := range c.Stats().Degraded {
				if strings.Contains(err.Error(), "closed") {
					return true
				}
			}
			return false
		})
	})
}
