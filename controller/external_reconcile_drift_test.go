package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/record"
)

func TestADriftPolicyThatIsSetOnARunningInstallationOverwritesNothing(t *testing.T) {
	for name, policy := range map[string]external.DriftPolicy{"report": external.DriftReport,
		"ignore": external.DriftIgnore} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newCloudWorld(t, quick, nil)
				r := w.run(w.c)
				for _, name := range []string{"changed", "deleted"} {
					must(t, w.sites.Create(t.Context(), sized(name, 7)))
					natstest.Eventually(t, "created", func() bool { return w.reconciled(name) })
				}
				r.halt()
				// an incident; the operator wants to keep it so
				w.cloud.Edit("changed", func(d *cloudtest.Disk) { d.Size = 99 })
				w.cloud.Remove("deleted")
				expired := time.Now().Add(time.Second) // the time to settle
				natstest.Eventually(t, "nobody doubts that it was deleted", func() bool {
					return time.Now().After(expired)
				})
				w.controller(with(external.Drift(policy)))
				w.run(w.c)
				for _, name := range []string{"changed", "deleted"} {
					n := w.seen.count(name)
					natstest.Eventually(t, "reconciled", func() bool {
						w.c.Enqueue(name, OperationManual)
						return w.seen.count(name) > n+3
					})
				}
				if w.cloud.Of("changed") != "=99" || w.cloud.Of("deleted") != "" {
					t.Errorf("the disks are %q and %q, want what was made by hand", w.cloud.Of("changed"),
						w.cloud.Of("deleted"))
				}
				for _, name := range []string{"changed", "deleted"} {
					w.resize(name, 8)
					natstest.Eventually(t, "a wish is applied", func() bool {
						return w.cloud.Of(name) == "=8" && w.reconciled(name)
					})
				}
			})
		})
	}
}

func TestAResourceThatWasThereBeforeIsLeftAsItIsWhereDriftIsReportedOrIgnored(t *testing.T) {
	for name, test := range map[string]struct {
		policy external.DriftPolicy
		events bool
	}{"report": {external.DriftReport, true}, "ignore": {external.DriftIgnore, false}} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				recorder := record.NewFakeRecorder(1000)
				w := newCloudWorld(t, quick, with(external.Drift(test.policy)), WithEventRecorder(butLease{recorder}))
				r := w.run(w.c)
				natstest.Eventually(t, "its instance is known", func() bool { return w.c.Instance() != "" })
				r.halt() // while it runs, it would sweep a disk whose site does not exist yet
				w.cloud.Add(w.diskFor("home", ""))
				w.cloud.Edit("home", func(d *cloudtest.Disk) { d.Size = 99 })
				must(t, w.sites.Create(t.Context(), sized("home", 1)))
				w.controller(with(external.Drift(test.policy)), WithEventRecorder(butLease{recorder}))
				w.run(w.c)
				natstest.Eventually(t, "reconciled", func() bool { return w.reconciled("home") })
				if w.cloud.Of("home") != "=99" {
					t.Fatalf("the disk is %s, want it as it was", w.cloud.Of("home"))
				}
				if test.events {
					if event := <-recorder.Events; !strings.Contains(event, "size: 99 → 1") {
						t.Errorf("event %q", event)
					}
				} else if len(recorder.Events) > 0 {
					t.Errorf("event %q", <-recorder.Events)
				}
				w.resize("home", 2)
				natstest.Eventually(t, "a wish is applied", func() bool {
					return w.cloud.Of("home") == "=2" && w.reconciled("home")
				})
			})
		})
	}
}

// observing reconciles with ObserveOnly, and calls nothing for a primary that is gone unless absent is set.
func observing(absent bool) func(*cloudWorld) ReconcilerFunc {
	return func(w *cloudWorld) ReconcilerFunc {
		return func(ctx context.Context, req Request) (Result, error) {
			switch {
			case !req.Operations.Has(OperationDelete):
				_, err := external.Reconcile(ctx, w.driver, cloudtest.Spec{Size: 1},
					append(quickly, external.ObserveOnly())...)
				return Result{}, err
			case absent:
				_, err := external.ReconcileAbsent(ctx, w.driver, append(quickly, external.ObserveOnly())...)
				return Result{}, err
			}
			return Result{}, nil
		}
	}
}

func TestWhatIsOnlyObservedIsNeverDeleted(t *testing.T) {
	for name, absent := range map[string]bool{"ReconcileAbsent": true, "left to the runtime": false} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newCloudWorld(t, quick, observing(absent), WithResyncInterval(time.Second))
				w.run(w.c)
				must(t, w.sites.Create(t.Context(), sized("home", 1)))
				natstest.Eventually(t, "known", func() bool { return w.reconciled("home") })
				w.cloud.Add(w.diskFor("home", ""))
				natstest.Eventually(t, "listed", func() bool { return w.c.Stats().External["Disk"].Resources == 1 })
				must(t, w.sites.Delete(t.Context(), "home"))
				natstest.Eventually(t, "torn down", func() bool { return w.gone("home") })
				sweeps := w.c.Stats().Sweeps
				natstest.Eventually(t, "and swept", func() bool { return w.c.Stats().Sweeps > sweeps+3 })
				if w.cloud.Of("home") == "" || w.cloud.Called("DELETE disks") > 0 {
					t.Error("the disk was deleted")
				}
			})
		})
	}
}

func TestATeardownOfWhatIsOnlyObservedNeedsNoClient(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := &cloudWorld{world: newWorld(t), cloud: cloudtest.New(t)}
		w.sites = w.world.sites()
		w.driver = cloudtest.NewDriver(w.cloud.Server.URL)
		t.Cleanup(w.driver.HTTP.CloseIdleConnections)
		c, err := New("sites", w.sites, w.seen.reconciler(observing(true)(w)))
		must(t, err)
		w.c = c
		w.run(c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "known", func() bool { return w.reconciled("home") })
		w.cloud.Add(w.diskFor("home", ""))
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "torn down", func() bool { return w.gone("home") })
		if w.cloud.Of("home") == "" {
			t.Error("the disk was deleted")
		}
	})
}

func TestATeardownThatCannotTellTheObservedFromTheManagedDeletesNeitherAndSaysWhatToDo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var told atomic.Bool
		reconcile := func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					if told.Load() {
						result, err := external.ReconcileAbsent(ctx, w.driver, append(quickly, external.Name("ours"))...)
						return Result{RequeueAfter: result.RequeueAfter}, err
					}
					return Result{}, nil
				}
				_, err := external.Reconcile(ctx, w.driver, cloudtest.Spec{Size: 1},
					append(quickly, external.Name("theirs"), external.ObserveOnly())...)
				if err == nil {
					_, err = external.Reconcile(ctx, w.driver, cloudtest.Spec{Size: 1},
						append(quickly, external.Name("ours"))...)
				}
				return Result{}, err
			}
		}
		w := newCloudWorld(t, quick, reconcile)
		r := w.run(w.c)
		natstest.Eventually(t, "its instance is known", func() bool { return w.c.Instance() != "" })
		r.halt() // while it runs, it would clean up after a disk whose site does not exist yet
		w.cloud.Add(w.diskFor("home", "theirs"))
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		w.controller(reconcile)
		r = w.run(w.c)
		natstest.Eventually(t, "both are there", func() bool {
			return w.reconciled("home") && w.c.Stats().External["Disk"].Resources == 2
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete is reconciled", func() bool {
			return w.seen.with("home", OperationDelete) > 0
		})
		natstest.Eventually(t, "the error says what to do", func() bool { // once the disks were listed anew
			return strings.Contains(w.c.Explain("home").Error, "external.ReconcileAbsent for Disk/ours")
		})
		r.halt()
		if w.cloud.Count() != 2 {
			t.Errorf("%d disks are left, want both", w.cloud.Count())
		}
		told.Store(true)
		w.controller(reconcile)
		w.run(w.c)
		natstest.Eventually(t, "ours is gone", func() bool { return w.gone("home") })
		if w.cloud.Of("home") != "theirs=1" {
			t.Errorf("the disks are %q, want theirs", w.cloud.Of("home"))
		}
	})
}
