package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// slowLists takes its time for each list, and notes when.
type slowLists struct {
	*pushing
	takes time.Duration
	mu    sync.Mutex
	lists []struct{ began, ended time.Time }
}

func (s *slowLists) List(ctx context.Context) ([]external.Resource, error) {
	began := time.Now()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists = append(s.lists, struct{ began, ended time.Time }{began, time.Now()})
	}()
	<-time.After(s.takes)
	return s.pushing.List(ctx)
}

func TestPushesWithoutEndKeepTheAPIBusyWithListsForASmallPartOfTheTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := &slowLists{pushing: &pushing{Listed: cloudtest.NewListed(), pushes: make(chan string),
			ends: make(chan string)}, takes: 50 * time.Millisecond}
		c, err := New("sites", sites, noReconciler, OwnsExternal(external.Configure(things, withInterval(notInATest))))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		began, lists := time.Now(), things.Lists.Load()
		for ; things.Lists.Load() < lists+6 && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
			things.pushes <- "home"
		}
		if lists = things.Lists.Load() - lists; lists < 6 {
			t.Errorf("%d lists for all those pushes", lists)
		}
		things.mu.Lock()
		defer things.mu.Unlock()
		for i, next := range things.lists[1:] {
			last := things.lists[i]
			if took, pause := last.ended.Sub(last.began), next.began.Sub(last.ended); pause < 4*took {
				t.Errorf("a list %v after one that took %v", pause, took)
			}
		}
	})
}

func TestResourcesReconciledSideBySideInOneReconcileDoNotConflict(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const disks = 40
		var failed sync.Map
		w := newCloudWorld(t, quick, func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, _ Request) (Result, error) {
				var wg sync.WaitGroup
				errs := make([]error, disks)
				for i := range errs {
					wg.Go(func() {
						_, errs[i] = external.Reconcile(ctx, w.driver, cloudtest.Spec{Size: 1},
							append(quickly, external.Name(fmt.Sprint("n", i)))...)
					})
				}
				wg.Wait()
				err := errors.Join(errs...)
				if err != nil {
					failed.Store(err.Error(), true)
				}
				return Result{}, err
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "all disks are there", func() bool {
			return w.cloud.Count() == disks && w.reconciled("home")
		})
		failed.Range(func(err, _ any) bool { t.Errorf("%.300s", err); return true })
	})
}

func TestAnOwnerThatTheBucketCannotHaveIsReported(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		things := cloudtest.NewListed(external.Resource{ID: "odd", OwnerKey: "no such key/at/all", Version: "1"})
		c, err := New("sites", w.sites(), noReconciler, OwnsExternal(external.Configure(things, quick)))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it is reported", func() bool {
			reason := c.Stats().Degraded["OwnsExternal Thing"]
			return reason != nil && strings.Contains(reason.Error(), `"odd"`) &&
				strings.Contains(reason.Error(), `"no such key/at/all"`)
		})
	})
}

func TestAKeyAsLongAsTheBucketTakesHasIntentsToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, length := range []int{20, 600} {
			w := newCloudWorld(t, quick, nil)
			w.sites = w.client("Site", "long", func(c *entity.Config) { c.MaxKeyLength = length })
			w.controller(nil)
			r := w.run(w.c)
			key := strings.Repeat("k", length)
			must(t, w.sites.Create(t.Context(), sized(key, 1)))
			natstest.Eventually(t, "it has its disk", func() bool {
				return w.cloud.Of(key) == "=1" && w.reconciled(key)
			})
			must(t, w.sites.Delete(t.Context(), key))
			natstest.Eventually(t, "all is gone", func() bool { return w.cloud.Count() == 0 && w.gone(key) })
			r.halt()
		}
	})
}

func TestExternalResourcesOfANamespacedBucket(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, nil, WithResyncInterval(time.Second))
		w.sites = w.client("Site", "namespaced", func(c *entity.Config) { c.Namespaced = true })
		w.controller(nil, WithResyncInterval(time.Second))
		w.run(w.c)
		for _, namespace := range []string{"one", "two"} {
			s := sized("home", 1)
			s.Namespace = namespace
			must(t, w.sites.Create(t.Context(), s))
		}
		natstest.Eventually(t, "both have a disk of their own", func() bool {
			return w.cloud.Of("one/home") == "=1" && w.cloud.Of("two/home") == "=1" && w.reconciled("one/home") &&
				w.reconciled("two/home")
		})
		w.cloud.Edit("one/home", func(d *cloudtest.Disk) { d.Size = 9 })
		natstest.Eventually(t, "an edit by hand is undone", func() bool { return w.cloud.Of("one/home") == "=1" })
		must(t, w.sites.Delete(t.Context(), "one/home"))
		natstest.Eventually(t, "one is gone", func() bool { return w.cloud.Of("one/home") == "" && w.gone("one/home") })
		_, err := w.kv("namespaced").PutString(t.Context(), "two.ghost", "{")
		must(t, err)
		must(t, w.kv("namespaced").Delete(t.Context(), "two.ghost"))
		w.cloud.Add(cloudtest.Disk{Owner: "two/ghost", Instance: w.c.Instance(), Size: 1})
		natstest.Eventually(t, "an orphan is swept", func() bool { return w.cloud.Of("two/ghost") == "" })
		if w.cloud.Of("two/home") != "=1" {
			t.Error("the other namespace's disk is gone too")
		}
	})
}
