package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func (w *cloudWorld) away() bool { return w.c.Stats().External["Disk"].Away }

func TestAReconcileThatWasRefusedAndReturnsLateDoesNotOpenTheBreakerAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		refused, release := make(chan struct{}), make(chan struct{})
		w := newCloudWorld(t, withInterval(notInATest), func(w *cloudWorld) ReconcilerFunc {
			reconcile := disksOf(w.sites, w.driver, quickly...)
			var once atomic.Bool
			return func(ctx context.Context, req Request) (Result, error) {
				result, err := reconcile(ctx, req)
				if req.Key == "late" && err != nil && once.CompareAndSwap(false, true) {
					close(refused)
					<-release // the rest of a reconcile: other resources, a status
				}
				return result, err
			}
		}, WithWorkers(2))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.GoAway(false)
		must(t, w.sites.Create(t.Context(), sized("first", 1)))
		natstest.Eventually(t, "the API is away", w.away)
		must(t, w.sites.Create(t.Context(), sized("late", 1)))
		<-refused
		w.cloud.ComeBack()
		natstest.Eventually(t, "the API is back", func() bool { return !w.away() && w.reconciled("first") })
		opened := w.c.Stats().BreakerOpened
		close(release)
		natstest.Eventually(t, "the late one is reconciled", func() bool { return w.reconciled("late") })
		if s := w.c.Stats(); s.BreakerOpened != opened || s.Failures != 0 {
			t.Errorf("opened %d times more by a call that was never made, %d failures",
				s.BreakerOpened-opened, s.Failures)
		}
	})
}

func TestAnAPIThatReturnsUnderTrafficStaysOpenToAll(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil, WithWorkers(4))
		w.run(w.c)
		w.manySites(8)
		natstest.Eventually(t, "all have their disks", func() bool { return w.cloud.Count() == 8 })
		users, stop := make(chan struct{}), make(chan struct{})
		last := 0
		go func() {
			defer close(users)
			for n := 2; ; n++ {
				select {
				case <-stop:
					last = n - 1
					return
				case <-time.After(10 * time.Millisecond):
				}
				for i := range 8 {
					if w.sites.Patch(t.Context(), fmt.Sprintf("s%d", i),
						fmt.Appendf(nil, `{"spec":{"pages":%d}}`, n)) != nil {
						return
					}
				}
			}
		}()
		w.cloud.GoAway(false)
		natstest.Eventually(t, "the API is away", w.away)
		finds := w.cloud.Called("GET find")
		polls := w.cloud.Called("GET disks")
		natstest.Eventually(t, "it is polled", func() bool { return w.cloud.Called("GET disks") > polls+5 })
		if n := w.cloud.Called("GET find") - finds; n > 4 {
			t.Errorf("%d calls of an API that is away", n)
		}
		w.cloud.ComeBack()
		natstest.Eventually(t, "the API is back", func() bool { return !w.away() })
		opened, changes := w.c.Stats().BreakerOpened, w.cloud.Called("PUT disks")
		natstest.Eventually(t, "changes go through", func() bool { return w.cloud.Called("PUT disks") > changes+100 })
		close(stop)
		<-users
		if n := w.c.Stats().BreakerOpened - opened; n > 0 {
			t.Errorf("the API is healthy, and the breaker opened %d times more", n)
		}
		for i := range 8 {
			key := fmt.Sprintf("s%d", i)
			natstest.Eventually(t, key+" is as it was wished last", func() bool {
				return w.cloud.Of(key) == fmt.Sprintf("=%d", last) && w.reconciled(key)
			})
		}
	})
}

// poisoned reconciles the primary "poison" at an address where nobody answers, and the rest as usual.
func poisoned(w *cloudWorld) ReconcilerFunc {
	fine, poison := disksOf(w.sites, w.driver, quickly...), disksOf(w.sites, cloudtest.NewDriver("http://127.0.0.1:1"),
		quickly...)
	return func(ctx context.Context, req Request) (Result, error) {
		if strings.HasPrefix(req.Key, "poison") {
			return poison(ctx, req)
		}
		return fine(ctx, req)
	}
}

func TestOneFaultyPrimaryAmongHealthyOnesIsItsOwnFault(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), poisoned, WithWorkers(2))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("fine", 1)))
		natstest.Eventually(t, "the fine one is there", func() bool { return w.reconciled("fine") })
		must(t, w.sites.Create(t.Context(), sized("poison", 1)))
		natstest.Eventually(t, "the faulty one fails on its own", func() bool {
			return w.c.Stats().Failures > 3 && strings.Contains(w.condition("poison", entity.ReasonRetrying),
				"connection refused")
		})
		opened, failures := w.c.Stats().BreakerOpened, w.c.Stats().Failures
		if opened > 2 {
			t.Errorf("the breaker opened %d times for it, want once", opened)
		}
		for size := 2; size < 50 || w.c.Stats().Failures < failures+3; size++ {
			w.resize("fine", size)
			natstest.Eventually(t, "the fine one follows", func() bool {
				return w.cloud.Of("fine") == fmt.Sprintf("=%d", size)
			})
			if w.away() {
				t.Fatal("the API is healthy, and away for all")
			}
		}
		if n := w.c.Stats().BreakerOpened; n != opened {
			t.Errorf("the breaker opened %d times more", n-opened)
		}
	})
}

func TestSeveralFaultyPrimariesInAQuietWorldHoldUpAChangeNoLongerThanAPoll(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		failed := map[string]bool{} // by a call of its own, and not because the breaker was open
		w := newCloudWorld(t, withInterval(notInATest), func(w *cloudWorld) ReconcilerFunc {
			reconcile := poisoned(w)
			return func(ctx context.Context, req Request) (Result, error) {
				result, err := reconcile(ctx, req)
				if err != nil && strings.Contains(err.Error(), "owner="+req.Key) {
					mu.Lock()
					defer mu.Unlock()
					failed[req.Key] = true
				}
				return result, err
			}
		}, WithWorkers(2))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("fine", 1)))
		natstest.Eventually(t, "the fine one is there", func() bool { return w.reconciled("fine") })
		for i := range 5 {
			must(t, w.sites.Create(t.Context(), sized(fmt.Sprintf("poison%d", i), 1)))
		}
		natstest.Eventually(t, "each has failed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(failed) == 5
		})
		w.resize("fine", 2)
		natstest.Eventually(t, "the fine one follows", func() bool { return w.cloud.Of("fine") == "=2" })
		natstest.Eventually(t, "since it did, they are their own fault", func() bool {
			return !w.away() && w.c.Stats().External["Disk"].Waiting == 0 && w.c.Stats().Failing == 5
		})
		opened := w.c.Stats().BreakerOpened
		for size := 3; size < 30; size++ {
			w.resize("fine", size)
			natstest.Eventually(t, "the fine one follows", func() bool {
				return w.cloud.Of("fine") == fmt.Sprintf("=%d", size)
			})
		}
		if n := w.c.Stats().BreakerOpened; n != opened {
			t.Errorf("the breaker opened %d times more", n-opened)
		}
	})
}

func TestWhileOnlyTheDriversFailOneKeyIsTriedAtATimeAndNothingIsWritten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		w := newCloudWorld(t, withInterval(notInATest), func(*cloudWorld) ReconcilerFunc {
			return func(_ context.Context, req Request) (Result, error) {
				if fails.Load() {
					return Result{}, external.UnavailableOf("Disk",
						errors.New("find?owner="+req.Key+": connection refused"))
				}
				return Result{}, nil
			}
		}, WithWorkers(4))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		const sites = 30
		w.manySites(sites)
		revisions := func() (all [sites]uint64) {
			for i := range sites {
				held, err := w.sites.Record(t.Context(), fmt.Sprintf("s%d", i))
				if err == nil && strings.HasPrefix(conditionOf(held).Message, record.WaitsFor) {
					all[i] = held.Revision
				}
			}
			return all
		}
		var before [sites]uint64
		natstest.Eventually(t, "all say that they wait", func() bool {
			before = revisions()
			for _, revision := range before {
				if revision == 0 {
					return false
				}
			}
			return w.away()
		})
		// While there was only one it may have been taken for the faulty one.
		failures := w.c.Stats().Failures
		polls, attempts := w.cloud.Called("GET disks"), w.c.Stats().Reconciles
		natstest.Eventually(t, "the lists succeed, again and again", func() bool {
			return w.cloud.Called("GET disks") > polls+10
		})
		polls, attempts = w.cloud.Called("GET disks")-polls, w.c.Stats().Reconciles-attempts
		if attempts == 0 || attempts > uint64(polls+2) {
			t.Errorf("%d attempts for %d polls, want one for each", attempts, polls)
		}
		if after := revisions(); after != before {
			t.Errorf("records were written though nothing changed:\n%v\n%v", before, after)
		}
		if n := w.c.Stats().Failures - failures; n != 0 {
			t.Errorf("%d failures", n)
		}
		fails.Store(false)
		natstest.Eventually(t, "all are reconciled", func() bool {
			for i := range sites {
				if !w.reconciled(fmt.Sprintf("s%d", i)) {
					return false
				}
			}
			return !w.away() && w.c.Stats().External["Disk"].Waiting == 0
		})
	})
}

func TestAnEventOfAWaitingKeyTakesItsOperationsAlong(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		w := newCloudWorld(t, withInterval(notInATest), func(*cloudWorld) ReconcilerFunc {
			return func(context.Context, Request) (Result, error) {
				if fails.Load() {
					return Result{}, external.UnavailableOf("Disk", errors.New("as the test wishes"))
				}
				return Result{}, nil
			}
		})
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.GoAway(false) // so that nothing hands the key back
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it waits", func() bool { return w.c.Stats().External["Disk"].Waiting == 1 })
		fails.Store(false)
		w.c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "it is reconciled", func() bool { return w.reconciled("home") })
		ops := w.seen.of("home")
		if last := ops[len(ops)-1]; !last.Has(OperationPut) || !last.Has(OperationManual) {
			t.Errorf("the attempt that succeeded had %v, want Put and Manual", last)
		}
	})
}

func TestTeardownOfAPrimaryWithoutResourcesBehindTheAPIGoesAsFarAsItCanWhileTheAPIIsAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := &cloudWorld{world: newWorld(t), cloud: cloudtest.New(t), config: withInterval(notInATest)}
		w.sites, w.driver = w.world.sites(), cloudtest.NewDriver(w.cloud.Server.URL)
		t.Cleanup(w.driver.HTTP.CloseIdleConnections)
		pages := w.pages()
		w.controller(func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{}, nil
				}
				p := newSite(req.Key+"-page", "")
				_, err := CreateOrUpdate(ctx, pages, p, func(*page) error { return nil })
				return Result{}, err
			}
		}, Owns(pages))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("plain", 1)))
		natstest.Eventually(t, "it has its page", func() bool {
			_, err := pages.Get(t.Context(), "plain-page")
			return err == nil && w.reconciled("plain")
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Status = http.StatusServiceUnavailable })
		must(t, w.sites.Delete(t.Context(), "plain"))
		natstest.Eventually(t, "what can be deleted is, and the key waits for the API", func() bool {
			_, err := pages.Get(t.Context(), "plain-page")
			return err != nil && w.c.Stats().External["Disk"].Waiting == 1 && w.away()
		})
		if s := w.c.Stats(); s.Failures != 0 || s.TornDown != 0 {
			t.Errorf("%d failures, %d torn down", s.Failures, s.TornDown)
		}
		calls := w.seen.count("plain")
		polls := w.cloud.Called("GET disks")
		natstest.Eventually(t, "the API is polled", func() bool { return w.cloud.Called("GET disks") > polls+3 })
		if n := w.seen.count("plain"); n != calls {
			t.Errorf("the reconciler was called %d times more while the key waits", n-calls)
		}
		w.cloud.ComeBack()
		natstest.Eventually(t, "the teardown ends", func() bool { return w.gone("plain") && w.c.Stats().TornDown == 1 })
	})
}
