package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// order is the order in which keys were reconciled.
type order struct {
	mu   sync.Mutex
	keys []string
}

func (o *order) add(key string) (nth int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, key)
	for _, k := range o.keys {
		if k == key {
			nth++
		}
	}
	return nth
}

func (o *order) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.keys)
}

// TestARetryKeepsThePriorityOfWhatMadeTheKeyDue: what a user has just changed does not wait behind the initial list
// because its first attempt failed, and what failed of the list does not go before the rest of it.
func TestARetryKeepsThePriorityOfWhatMadeTheKeyDue(t *testing.T) {
	const backlog, work = 60, 10 * time.Millisecond
	for name, opts := range map[string][]Option{"with records": nil, "without": {WithoutTeardown()}} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				for n := range backlog {
					must(t, sites.Create(t.Context(), newSite(fmt.Sprintf("old-%02d", n), "")))
				}
				var seen order
				c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
					time.Sleep(work)
					if nth := seen.add(req.Key); nth == 1 && (req.Key == "new" || req.Key == "old-05") {
						return Result{}, errUnwell
					}
					return Result{}, nil
				}), append(opts, WithWorkers(1), WithBackoff(time.Millisecond, time.Millisecond))...)
				must(t, err)
				w.run(c)
				natstest.Eventually(t, "a part of the list is reconciled", func() bool { return len(seen.all()) >= 10 })
				must(t, sites.Create(t.Context(), newSite("new", "")))
				natstest.Eventually(t, "all are", func() bool { return len(seen.all()) == backlog+3 })
				keys := seen.all()
				first := slices.Index(keys, "new")
				again := first + 1 + slices.Index(keys[first+1:], "new")
				// Two, because one attempt may have begun before the backoff was over, and one may be the oldest of all.
				if first > 13 || again-first > 3 {
					t.Errorf("the new key was number %d and again number %d of %v", first+1, again+1, keys)
				}
				rest := keys[slices.Index(keys, "old-05")+1:]
				if after := slices.Index(rest, "old-05"); after < len(rest)/4 {
					t.Errorf("the one of the list that failed was tried again after %d of %d: %v", after, len(rest), keys)
				}
			})
		})
	}
}

// TestAKeyThatWaitedForAnAPIKeepsItsPriority, whether the API was away or its rate was limited.
func TestAKeyThatWaitedForAnAPIKeepsItsPriority(t *testing.T) {
	limited := withInterval(notInATest)
	limited.Rate, limited.Burst = 0.5, 1
	for name, config := range map[string]external.Config{"away": withInterval(notInATest), "limited": limited} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				var seen order
				w := newCloudWorld(t, config, func(w *cloudWorld) ReconcilerFunc {
					disks := oneDisk(w.driver, quickly...)
					return func(ctx context.Context, req Request) (Result, error) {
						seen.add(req.Key)
						if strings.HasPrefix(req.Key, "old") {
							time.Sleep(50 * time.Millisecond)
							return Result{}, nil
						}
						return disks(ctx, req)
					}
				}, WithWorkers(1), WithGracePeriod(time.Second))
				const backlog = 2000
				for n := range backlog {
					must(t, w.sites.Create(t.Context(), sized(fmt.Sprintf("old-%03d", n), 1)))
				}
				w.run(w.c)
				natstest.Eventually(t, "a part of the list is reconciled", func() bool { return len(seen.all()) >= 10 })
				if name == "away" {
					w.cloud.Set(func(c *cloudtest.Cloud) {
						c.Fault = func(string, *http.Request) int { return http.StatusServiceUnavailable }
					})
				}
				for _, key := range []string{"new-a", "new-b"} {
					must(t, w.sites.Create(t.Context(), sized(key, 1)))
				}
				waits := func() bool {
					s := w.c.Stats().External["Disk"]
					return s.Waiting == 2 || s.TurnedAway >= 1
				}
				natstest.Eventually(t, "they wait for the API", waits)
				w.cloud.Set(func(c *cloudtest.Cloud) { c.Fault = nil })
				natstest.Eventually(t, "they have their disks", func() bool { return w.cloud.Count() == 2 })
				if n := len(seen.all()); n > backlog/2 {
					t.Errorf("they had them after %d of %d reconciles of the list", n, backlog)
				}
			})
		})
	}
}

// TestEachKeyIsAddedOnce: an add is, as in client-go's workqueue, that of a key which is not queued already, and not
// each step of a hand-out.
func TestEachKeyIsAddedOnce(t *testing.T) {
	const keys = 50
	for name, opts := range map[string][]Option{"with records": nil, "without": {WithoutTeardown()}} {
		for _, listed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", listed ", listed), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					sites := w.sites()
					create := func() {
						for n := range keys {
							must(t, sites.Create(t.Context(), newSite(fmt.Sprintf("site-%02d", n), "")))
						}
					}
					if listed {
						create()
					}
					var seen order
					failing := errors.New("once")
					c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
						if seen.add(req.Key) == 1 && req.Key == "site-07" {
							return Result{}, failing
						}
						return Result{}, nil
					}), append(opts, WithResyncInterval(0))...)
					must(t, err)
					w.run(c)
					if !listed {
						natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
						create()
					}
					natstest.Eventually(t, "all are reconciled", func() bool { return c.Stats().Reconciles == keys+1 })
					idle(t, c)
					// The one more is the retry, which client-go adds, too, when its delay is over.
					if s := c.Stats(); s.Adds != keys+1 || s.Delays != 1 {
						t.Errorf("%d adds and %d delays of %d keys and one retry", s.Adds, s.Delays, keys)
					}
				})
			})
		}
	}
}
