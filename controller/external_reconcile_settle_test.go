package controller

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// keep writes down an entry for a site's disk, as another process would have left it.
func (w *cloudWorld) keep(name string, entry external.Entry) {
	w.t.Helper()
	data, err := json.Marshal(apisource.Intents{Key: name, Resources: map[string]external.Entry{"Disk": entry}})
	must(w.t, err)
	_, err = w.sites.Records().PutReserved(w.t.Context(), record.IntentsKey(name), data, 0)
	must(w.t, err)
}

// unanswered is an intent to create a disk, as a process leaves it that is killed in Apply.
func unanswered(tried time.Time) external.Entry {
	return external.Entry{Intent: &external.Intent{
		Token: "t", Action: external.ActionCreate, Digest: "x", Desired: json.RawMessage(`{"size":3}`), Tried: tried,
	}}
}

func TestAReplicaOfTheAPIThatLagsMakesNoSecondResource(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		// Seen once, and then not, within Settle; also by a controller that has not made it.
		lag := with(external.Settle(time.Hour))
		w := apart(t, lag)
		r := w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		hides := w.cloud.Hidden()
		for range 2 {
			hides.Store(true)
			finds := w.cloud.Called("GET find")
			w.c.Enqueue("home", OperationManual)
			natstest.Eventually(t, "it is looked for again and again", func() bool {
				return w.cloud.Called("GET find") > finds+3
			})
			natstest.Eventually(t, "the condition says so", func() bool {
				return strings.Contains(w.condition("home", entity.ReasonRetrying), "what was created to be seen again")
			})
			hides.Store(false)
			natstest.Eventually(t, "it is there", func() bool { return w.reconciled("home") })
			r.halt()
			w.controller(lag)
			r = w.run(w.c)
			natstest.Eventually(t, "the next controller leads", func() bool { return w.c.Stats().Leading })
		}
		if n := w.cloud.Called("POST disks"); n != 1 {
			t.Errorf("%d creates, want 1", n)
		}
	})
}

func TestAReplicaOfTheAPIThatLagsForgetsNothingWhenThePrimaryGoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, with(external.Settle(time.Hour)))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		hides := w.cloud.Hidden()
		hides.Store(true)
		finds := w.cloud.Called("GET find")
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is looked for again and again", func() bool {
			return w.cloud.Called("GET find") > finds+3
		})
		if w.gone("home") {
			t.Error("forgotten")
		}
		hides.Store(false)
		natstest.Eventually(t, "gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}

func TestWhatSomebodyDeletesIsMadeAgainOnceTheTimeToSettleIsOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		w.cloud.Remove("home")
		w.c.Enqueue("home", OperationManual)
		time.Sleep(quickSettle - 10*time.Millisecond)
		if n := w.cloud.CreatedFor("home"); n != 1 {
			t.Errorf("created %d times within Settle", n)
		}
		natstest.Eventually(t, "made again", func() bool {
			return w.cloud.CreatedFor("home") == 2 && w.reconciled("home")
		})
	})
}

func TestATeardownWaitsForACallThatMayStillBeUnderWay(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		// A process was killed in Apply: for Timeout the call may arrive, and for Settle after it not be seen.
		config := withInterval(notInATest)
		config.Timeout = 3 * time.Second
		w := newCloudWorld(t, config, nil, WithResyncInterval(0))
		w.keep("home", unanswered(time.Now()))
		must(t, w.sites.Create(t.Context(), sized("home", 0)))
		start := time.Now()
		w.run(w.c)
		natstest.Eventually(t, "the intent is found", func() bool { return w.seen.count("home") > 0 })
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete is reconciled", func() bool {
			return w.seen.with("home", OperationDelete) > 0
		})
		time.Sleep(config.Timeout + quickSettle - time.Since(start) - time.Millisecond)
		if w.gone("home") {
			t.Errorf("forgotten within %v, though the call may arrive for %v", time.Since(start), config.Timeout)
		}
		time.Sleep(time.Second)
		if !w.gone("home") {
			t.Errorf("not forgotten after %v", time.Since(start))
		}
	})
}

func TestATeardownThatTheReconcilerLeavesToTheRuntimeWaitsForTheReconcilersSettle(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := quick
		config.Timeout = 200 * time.Millisecond // and no Settle
		w := newCloudWorld(t, config, onlyApply(external.Settle(8*time.Second),
			external.PollInterval(10*time.Millisecond)), WithResyncInterval(0))
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Unseen = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created, and not seen", func() bool {
			return w.cloud.Count() == 1 && w.intentOf("home") != nil
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete is reconciled", func() bool {
			return w.seen.with("home", OperationDelete) > 0
		})
		time.Sleep(7 * time.Second) // more than the source alone would wait
		lists := w.cloud.Called("GET disks")
		natstest.Eventually(t, "the API is listed again and again", func() bool {
			return w.cloud.Called("GET disks") > lists+3
		})
		if w.gone("home") {
			t.Error("the teardown is over, and what was created has not been seen yet")
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Unseen = false })
		natstest.Eventually(t, "all is gone", func() bool { return w.gone("home") })
		if w.cloud.Count() != 0 {
			t.Errorf("the disk was forgotten: %s", w.cloud.Of("home"))
		}
	})
}

func TestAClockThatWasAheadStopsNothing(t *testing.T) {
	for name, entry := range map[string]func(ahead time.Time) external.Entry{
		"done, and not seen": func(ahead time.Time) external.Entry {
			entry := unanswered(ahead)
			entry.Intent.Answered = true
			return entry
		},
		"created, and seen": func(ahead time.Time) external.Entry {
			return external.Entry{Applied: "x", Created: &external.Creation{At: ahead, Settle: time.Second}}
		},
		"nobody has answered": unanswered,
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				config := quick
				config.Timeout = 500 * time.Millisecond
				w := newCloudWorld(t, config, nil)
				w.keep("home", entry(time.Now().Add(time.Hour)))
				must(t, w.sites.Create(t.Context(), sized("home", 3)))
				w.run(w.c)
				natstest.Eventually(t, "created", func() bool {
					return w.cloud.Of("home") == "=3" && w.reconciled("home")
				})
			})
		})
	}
	t.Run("in a teardown", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			config := quick
			config.Timeout = 500 * time.Millisecond
			w := newCloudWorld(t, config, onlyApply())
			r := w.run(w.c)
			must(t, w.sites.Create(t.Context(), sized("home", 0)))
			natstest.Eventually(t, "known", func() bool { return w.reconciled("home") })
			r.halt()
			w.keep("home", unanswered(time.Now().Add(time.Hour)))
			w.controller(onlyApply())
			must(t, w.sites.Delete(t.Context(), "home"))
			w.run(w.c)
			natstest.Eventually(t, "gone", func() bool { return w.gone("home") })
		})
	})
}

func TestAClockThatWasBehindMakesNobodyBelieveTooEarlyThatNothingWasDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Timeout = 2 * time.Second
		w := newCloudWorld(t, config, nil, WithResyncInterval(0))
		w.keep("home", unanswered(time.Now().Add(-time.Hour)))
		must(t, w.sites.Create(t.Context(), sized("home", 0)))
		start := time.Now()
		w.run(w.c)
		time.Sleep(config.Timeout + quickSettle - time.Since(start) - time.Millisecond)
		if w.intents("home") == "" {
			t.Errorf("forgotten within %v, though the call may arrive for %v", time.Since(start), config.Timeout)
		}
		time.Sleep(time.Second)
		if w.intents("home") != "" {
			t.Errorf("not forgotten after %v", time.Since(start))
		}
	})
}

// lostAnswer is a driver whose first Apply is done, and answered with an error that does not say so.
type lostAnswer struct {
	*cloudtest.Driver
	lost atomic.Bool
}

func (d *lostAnswer) Apply(
	ctx context.Context, req external.ApplyRequest[cloudtest.Spec, cloudtest.Disk],
) (external.Outcome, error) {
	outcome, err := d.Driver.Apply(ctx, req)
	if err == nil && d.lost.CompareAndSwap(false, true) {
		return external.Outcome{}, errors.New("500: the answer got lost")
	}
	return outcome, err
}

// oneDisk reconciles each site to a disk of size 1.
func oneDisk(driver external.Driver[cloudtest.Spec, cloudtest.Disk], opts ...external.Option) ReconcilerFunc {
	return func(ctx context.Context, _ Request) (Result, error) {
		_, err := external.Reconcile(ctx, driver, cloudtest.Spec{Size: 1}, opts...)
		return Result{}, err
	}
}

// TestAWishThatChangesWhileACreationIsOpenMakesNoSecondResource: what may have been created is waited for, as Settle
// says, before there is another token.
func TestAWishThatChangesWhileACreationIsOpenMakesNoSecondResource(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Timeout = time.Second
		w := newCloudWorld(t, config, func(w *cloudWorld) ReconcilerFunc {
			return oneDisk(&lostAnswer{Driver: w.driver}, external.Settle(2*time.Second),
				external.PollInterval(10*time.Millisecond))
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Lag = time.Second }) // well within Settle
		w.keep("home", unanswered(time.Now()))                        // of size 3, and the wish is 1 by now
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		w.run(w.c)
		natstest.Eventually(t, "reconciled", func() bool { return w.reconciled("home") })
		if have := w.cloud.Of("home"); have != "=1" {
			t.Errorf("disks %s, want one of size 1", have)
		}
	})
}

func TestAClockThatWasBehindCreatesNothingTwice(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, with(external.Settle(time.Hour)))
		// Created a moment ago by another process, whose clock is two hours behind.
		w.keep("home", external.Entry{Applied: "x",
			Created: &external.Creation{At: time.Now().Add(-2 * time.Hour), Settle: time.Hour}})
		w.cloud.Hidden().Store(true)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		w.run(w.c)
		natstest.Eventually(t, "it is looked for again and again", func() bool {
			return w.cloud.Called("GET find") > 3
		})
		if n := w.cloud.Called("POST disks"); n > 0 {
			t.Errorf("created %d times more within Settle", n)
		}
	})
}

// TestADeleteThatFailedIsNotOverBecauseAReplicaLags: what was created a moment ago is not believed to be gone because
// one look does not show it.
func TestADeleteThatFailedIsNotOverBecauseAReplicaLags(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, with(external.Settle(time.Hour)), WithResyncInterval(0))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		var deleted, lags atomic.Bool
		lags.Store(true)
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Fault = func(call string, _ *http.Request) int {
				switch {
				case call == "DELETE disks" && deleted.CompareAndSwap(false, true):
					return http.StatusInternalServerError // nothing was done
				case call == "GET find" && deleted.Load() && lags.Load():
					return http.StatusNotFound
				}
				return 0
			}
		})
		w.resize("home", 0) // it is no longer wanted
		natstest.Eventually(t, "the delete was tried", deleted.Load)
		finds := w.cloud.Called("GET find")
		natstest.Eventually(t, "it is looked for again and again", func() bool {
			return w.cloud.Called("GET find") > finds+3
		})
		if w.intents("home") == "" {
			t.Error("taken for deleted, and it is there")
		}
		lags.Store(false)
		natstest.Eventually(t, "it is deleted", func() bool { return w.cloud.Count() == 0 && w.intents("home") == "" })
	})
}
