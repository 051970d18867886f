package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// onlyApply makes disks, and leaves it to the runtime to clean up.
func onlyApply(opts ...external.Option) func(w *cloudWorld) ReconcilerFunc {
	return func(w *cloudWorld) ReconcilerFunc {
		reconcile := disksOf(w.sites, w.driver, opts...)
		return func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, nil
			}
			return reconcile(ctx, req)
		}
	}
}

func TestAnOperationThatFailsAgainAndAgainIsBegunEverMoreRarely(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a teardown %v", gone), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newCloudWorld(t, withInterval(notInATest), nil, WithBackoff(50*time.Millisecond, time.Hour))
				w.run(w.c)
				begun, call := func() int { return w.cloud.Called("POST disks") }, "POST disks"
				if gone {
					must(t, w.sites.Create(t.Context(), sized("home", 1)))
					natstest.Eventually(t, "the disk is there", func() bool { return w.reconciled("home") })
					begun, call = func() int { return w.cloud.Called("DELETE disks") }, "DELETE disks"
				}
				w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
				if gone {
					must(t, w.sites.Delete(t.Context(), "home"))
				} else {
					must(t, w.sites.Create(t.Context(), sized("home", 1)))
				}
				start := time.Now()
				natstest.Eventually(t, "it is tried five times", func() bool {
					w.cloud.Finish("quota")
					return begun() >= 5
				})
				// Of the delays after failures 1 to 4 each is at least 2^(n-1) times the shortest.
				if least := (1 + 2 + 4 + 8) * 50 * time.Millisecond; time.Since(start) < least {
					t.Errorf("five %s within %v, with backoff they take %v at least", call, time.Since(start), least)
				}
				w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = false })
				natstest.Eventually(t, "it is done", func() bool {
					w.cloud.Finish("")
					return gone && w.gone("home") || !gone && w.reconciled("home")
				})
				if n := w.c.Stats().Failing; n != 0 {
					t.Errorf("%d keys failing, though all is done: the backoff is not over", n)
				}
			})
		})
	}
}

func TestAnUpdateThatTheAPIDoesNotTakeIsTriedEverMoreRarely(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), func(w *cloudWorld) ReconcilerFunc {
			return disksOf(w.sites, w.driver, external.Settle(5*time.Millisecond),
				external.PollInterval(5*time.Millisecond))
		}, WithBackoff(50*time.Millisecond, time.Hour))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the disk is there", func() bool { return w.reconciled("home") })
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Stage = func(stage, call, _ string) {
				if stage == "after" && call == "PUT disks" {
					w.cloud.Edit("home", func(d *cloudtest.Disk) { d.Size = 1 }) // as if there were a limit
				}
			}
		})
		start := time.Now()
		w.resize("home", 9)
		natstest.Eventually(t, "it is tried five times", func() bool { return w.cloud.Called("PUT disks") >= 5 })
		if least := (1 + 2 + 4 + 8) * 50 * time.Millisecond; time.Since(start) < least {
			t.Errorf("five updates within %v, with backoff they take %v at least", time.Since(start), least)
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Stage = nil })
		w.resize("home", 3)
		natstest.Eventually(t, "it is done", func() bool { return w.cloud.Of("home") == "=3" && w.reconciled("home") })
	})
}

func TestTeardownDoesNotForgetAnOperationThatGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Timeout = 100 * time.Millisecond
		w := newCloudWorld(t, config, onlyApply(external.Settle(10*time.Millisecond),
			external.PollInterval(10*time.Millisecond)), WithResyncInterval(0))
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		r := w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the operation is known", func() bool {
			return strings.Contains(w.intents("home"), "op-")
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		// The teardown fails, so that it is told; Timeout and Settle are long over when it has done so several times.
		natstest.Eventually(t, "the teardown does not go on", func() bool {
			return w.c.Stats().Failing == 1 && w.c.Explain("home").Failures > 6
		})
		if w.gone("home") {
			t.Fatal("forgotten while the operation goes on")
		}
		r.halt()
		w.controller(nil, WithResyncInterval(0)) // what the error says: ReconcileAbsent
		w.run(w.c)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = false })
		w.finish("")
		natstest.Eventually(t, "all is gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}

func TestWhatIsAskedOfAnAPIInATermEndsWithIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := quick
		config.Settle = time.Hour
		w := newCloudWorld(t, config, leaveDisks, slowRenewal)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the site is known", func() bool { return w.reconciled("home") })
		must(t, w.sites.Delete(t.Context(), "home"))
		s := w.c.engine.APIs.Source("Disk")
		natstest.Eventually(t, "the teardown waits for a list", func() bool { return s.Stats().Awaited == 1 })
		terms := w.c.Stats().Terms
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "it does not lead", func() bool { return !w.c.Stats().Leading })
		natstest.Eventually(t, "nothing is asked any more", func() bool { return s.Stats().Awaited == 0 })
		w.leaseTo("", time.Second)
		natstest.Eventually(t, "it leads again, and asks again", func() bool {
			return w.c.Stats().Terms > terms && s.Stats().Awaited == 1
		})
	})
}

// loseLease makes another replica hold the lease, which then dies.
func loseLease(t *testing.T, sites *entity.Client[*site]) {
	t.Helper()
	natstest.Eventually(t, "another replica takes the lease", func() bool {
		data, revision, err := sites.Records().GetReserved(t.Context(), record.KeyLease)
		if err != nil {
			return false
		}
		var lease map[string]any
		must(t, json.Unmarshal(data, &lease))
		lease["holderIdentity"] = "another replica"
		data, err = json.Marshal(lease)
		must(t, err)
		_, err = sites.Records().PutReserved(t.Context(), record.KeyLease, data, revision)
		return err == nil
	})
}
