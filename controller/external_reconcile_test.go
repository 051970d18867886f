package controller

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	toolsrecord "k8s.io/client-go/tools/record"
)

// apart lists rarely, so that what happens is external.Reconcile's doing.
func apart(t *testing.T, reconcile func(*cloudWorld) ReconcilerFunc, opts ...Option) *cloudWorld {
	return newCloudWorld(t, withInterval(notInATest), reconcile, opts...)
}

// with reconciles with options beside the quick ones.
func with(opts ...external.Option) func(*cloudWorld) ReconcilerFunc {
	return func(w *cloudWorld) ReconcilerFunc { return disksOf(w.sites, w.driver, append(quickly, opts...)...) }
}

// intentOf returns the open intent of a site's disk.
func (w *cloudWorld) intentOf(name string) *external.Intent {
	w.t.Helper()
	data := w.intents(name)
	if data == "" {
		return nil
	}
	var kept apisource.Intents
	must(w.t, json.Unmarshal([]byte(data), &kept))
	return kept.Resources["Disk"].Intent
}

func TestReconcileCreatesUpdatesAndDeletesAndLeavesNothingBehind(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		if w.intentOf("home") != nil {
			t.Errorf("an intent is left: %s", w.intents("home"))
		}
		w.resize("home", 2)
		natstest.Eventually(t, "updated", func() bool { return w.cloud.Of("home") == "=2" && w.reconciled("home") })
		w.resize("home", 0)
		natstest.Eventually(t, "no longer wanted", func() bool {
			return w.cloud.Of("home") == "" && w.reconciled("home")
		})
		w.resize("home", 3)
		natstest.Eventually(t, "wanted again", func() bool {
			return w.cloud.Of("home") == "=3" && w.reconciled("home")
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
		creates, changes, deletes := w.cloud.Called("POST disks"), w.cloud.Called("PUT disks"), w.cloud.Called("DELETE disks")
		if creates != 2 || changes != 1 || deletes != 2 {
			t.Errorf("%d creates, %d changes and %d deletes, want 2, 1 and 2", creates, changes, deletes)
		}
	})
}

func TestAReconcileOfWhatIsAsDesiredWritesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil, WithLeaseTiming(LeaseTiming{ // it is not renewed meanwhile
			Duration: 5 * time.Minute, RenewDeadline: 2 * time.Minute, RetryPeriod: time.Minute,
		}))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		stream, err := w.js.Stream(t.Context(), "KV_sites-status")
		must(t, err)
		before, err := stream.Info(t.Context())
		must(t, err)
		n := w.seen.count("home")
		for i := range 5 {
			w.c.Enqueue("home", OperationManual)
			natstest.Eventually(t, "another reconcile", func() bool { return w.seen.count("home") > n+i })
		}
		after, err := stream.Info(t.Context())
		must(t, err)
		if writes := after.State.LastSeq - before.State.LastSeq; writes != 0 {
			t.Errorf("%d writes", writes)
		}
		if n := w.cloud.Called("POST disks") + w.cloud.Called("PUT disks"); n != 1 {
			t.Errorf("%d changes, want 1", n)
		}
	})
}

func TestTheIntentIsWrittenBeforeApplyAndTheTokenIsReusedForTheSameIntentOnly(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		status := w.cloud.Failing("POST disks", http.StatusInternalServerError)
		var mu sync.Mutex
		var tokens []string
		w.cloud.Set(func(c *cloudtest.Cloud) {
			fault := c.Fault
			c.Fault = func(call string, r *http.Request) int {
				if call == "POST disks" {
					kept := w.intentOf("home")
					if kept == nil || kept.Action != external.ActionCreate {
						t.Errorf("the API is called and the intent is %+v", kept)
					} else {
						mu.Lock()
						tokens = append(tokens, kept.Token)
						mu.Unlock()
					}
				}
				return fault(call, r)
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is tried several times", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(tokens) > 3
		})
		status.Store(0)
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		mu.Lock()
		for _, token := range tokens {
			if token != tokens[0] {
				t.Errorf("tokens %v, want one", tokens)
				break
			}
		}
		first := tokens[0]
		mu.Unlock()
		w.cloud.Remove("home")
		w.c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "created again", func() bool { return w.cloud.Of("home") == "=1" })
		mu.Lock()
		defer mu.Unlock()
		if tokens[len(tokens)-1] == first {
			t.Error("another intent has the token of the first")
		}
	})
}

func TestACreationWhoseAnswerIsLostIsNotMadeTwice(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		var once sync.Once
		lost := func(stage, call, _ string) {
			if stage == "after" && call == "POST disks" {
				drop := false
				once.Do(func() { drop = true })
				if drop {
					panic(http.ErrAbortHandler)
				}
			}
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Stage, c.Lag = lost, 100*time.Millisecond })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		if n := w.cloud.CreatedFor("home"); n != 1 || w.cloud.Count() != 1 {
			t.Errorf("created %d times", n)
		}
		if w.c.Stats().BreakerOpened == 0 {
			t.Error("an answer that was cut off did not open the breaker")
		}
	})
}

func TestWhatIsCreatedAndShowsLateIsWaitedForAndNotMadeTwice(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, with(external.Settle(time.Hour)))
		hides := w.cloud.Hidden()
		hides.Store(true)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is in the API", func() bool { return w.cloud.Count() == 1 })
		natstest.Eventually(t, "its condition says that it is waited for", func() bool {
			return strings.HasPrefix(w.condition("home", entity.ReasonRetrying), "waits for Disk: ")
		})
		hides.Store(false)
		natstest.Eventually(t, "it is seen", func() bool { return w.reconciled("home") })
		if n := w.cloud.Called("POST disks"); n != 1 {
			t.Errorf("%d creates, want 1", n)
		}
	})
}

func TestUnknownNeitherCreatesNorDeletes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		status := w.cloud.Failing("GET find", http.StatusTeapot)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is tried several times", func() bool { return w.seen.count("home") > 3 })
		if n := w.cloud.Called("POST disks"); n != 0 {
			t.Errorf("%d creates of what nobody knows", n)
		}
		if message := w.condition("home", entity.ReasonRetrying); !strings.Contains(message, external.ErrUnknown.Error()) ||
			!strings.Contains(message, "teapot") {
			t.Errorf("condition %q", message)
		}
		status.Store(0)
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		status.Store(http.StatusTeapot)
		must(t, w.sites.Delete(t.Context(), "home"))
		n := w.seen.count("home")
		natstest.Eventually(t, "it is tried several times", func() bool { return w.seen.count("home") > n+3 })
		if w.cloud.Called("DELETE disks") != 0 || w.gone("home") {
			t.Error("deleted, or forgotten, though nobody knows what there is")
		}
		status.Store(0)
		natstest.Eventually(t, "gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}

func TestALongOperationIsPolledAndNeverReportedAsDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is polled", func() bool { return w.cloud.Called("GET operations") > 3 })
		if message := w.condition("home", entity.ReasonRetrying); !strings.Contains(message,
			`waits for Disk: operation "op-1" (create)`) {
			t.Errorf("condition %q", message)
		}
		if record, err := w.sites.Record(t.Context(), "home"); err != nil || record.ObservedRevision != 0 {
			t.Errorf("reported as done: %+v, %v", record, err)
		}
		if s := w.c.Stats(); s.Failures != 0 {
			t.Errorf("%d failures", s.Failures)
		}
		w.finish("")
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		must(t, w.sites.Delete(t.Context(), "home"))
		polls := w.cloud.Called("GET operations")
		natstest.Eventually(t, "the delete is polled", func() bool {
			return w.cloud.Called("GET operations") > polls+3
		})
		if w.gone("home") {
			t.Error("forgotten before the delete was over")
		}
		w.finish("")
		natstest.Eventually(t, "gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
		if n := w.cloud.Called("POST disks") + w.cloud.Called("DELETE disks"); n != 2 {
			t.Errorf("%d changes, want 2", n)
		}
	})
}

func TestAnOperationSurvivesARestartAndAReconcilerThatDoesNotPassOnWhenToLook(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		careless := func(w *cloudWorld) ReconcilerFunc {
			reconcile := disksOf(w.sites, w.driver, quickly...)
			return func(ctx context.Context, req Request) (Result, error) {
				_, err := reconcile(ctx, req)
				return Result{}, err
			}
		}
		w := apart(t, careless)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		r := w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is polled", func() bool { return w.cloud.Called("GET operations") > 1 })
		r.halt()
		if kept := w.intentOf("home"); kept == nil || kept.Operation != "op-1" {
			t.Errorf("the intent is %+v, want one with its operation", kept)
		}
		w.controller(careless)
		w.run(w.c)
		polls := w.cloud.Called("GET operations")
		natstest.Eventually(t, "the next controller polls it", func() bool {
			return w.cloud.Called("GET operations") > polls+1
		})
		w.finish("")
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		if n := w.cloud.Called("POST disks"); n != 1 {
			t.Errorf("%d creates, want 1", n)
		}
	})
}

func TestAnOperationThatFailsIsAnErrorAndTheNextTryIsAnotherIntent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is under way", func() bool { return w.cloud.Called("GET operations") > 0 })
		w.finish("no space")
		natstest.Eventually(t, "the failure is told", func() bool { return w.c.Stats().Failures > 0 })
		natstest.Eventually(t, "it is tried again", func() bool { return w.cloud.Called("POST disks") == 2 })
		w.finish("")
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
	})
}

func TestAnOpenIntentIsSettledBeforeWhatIsDesiredNow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the first size is under way", func() bool {
			return w.cloud.Called("GET operations") > 0
		})
		w.resize("home", 2)
		polls := w.cloud.Called("GET operations")
		natstest.Eventually(t, "it is still polled", func() bool { return w.cloud.Called("GET operations") > polls+2 })
		if n := w.cloud.Called("POST disks") + w.cloud.Called("PUT disks"); n != 1 {
			t.Errorf("%d changes while the first was open", n)
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = false })
		w.finish("")
		natstest.Eventually(t, "then the second", func() bool {
			return w.cloud.Of("home") == "=2" && w.reconciled("home")
		})
		if n := w.cloud.CreatedFor("home"); n != 1 {
			t.Errorf("created %d times", n)
		}
	})
}

func TestACreationThatMayHaveArrivedIsFinishedAsItWasBeforeTheWishThatCameAfter(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		status := w.cloud.Failing("POST disks", http.StatusInternalServerError)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it fails", func() bool { return w.cloud.Called("POST disks") > 1 })
		token := w.intentOf("home").Token
		w.resize("home", 2)
		natstest.Eventually(t, "an API that answers with errors, and has nothing, ends the old intent", func() bool {
			kept := w.intentOf("home")
			return kept != nil && kept.Token != token
		})
		status.Store(0)
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=2" && w.reconciled("home") })
		if n := w.cloud.CreatedFor("home"); n != 1 {
			t.Errorf("created %d times", n)
		}
	})
}

func TestWhatTheAPIRefusesEndsTheIntent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, with(external.Settle(time.Hour))) // what may have been done would be waited for
		status := w.cloud.Failing("POST disks", http.StatusUnprocessableEntity)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is refused", func() bool { return w.c.Stats().Failures > 1 })
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "nothing keeps the teardown", func() bool { return w.gone("home") })
		status.Store(0)
		if w.cloud.Count() != 0 {
			t.Error("there is a disk")
		}
	})
}

func TestATeardownWaitsForACreationThatMayStillArrive(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		// The call is held up on its way while the caller gives up, and so is each that repeats it before the primary
		// is gone.
		config := withInterval(notInATest)
		config.Timeout = 200 * time.Millisecond
		w := newCloudWorld(t, config, with(external.Settle(time.Hour)))
		arrive := make(chan struct{})
		arrives := sync.OnceFunc(func() { close(arrive) })
		defer arrives()
		var held atomic.Bool
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Stage = func(stage, call, _ string) {
				if stage == "before" && call == "POST disks" {
					held.Store(true)
					<-arrive
				}
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the call is on its way", held.Load)
		defer func() {
			if t.Failed() {
				t.Logf("calls: %v; intents: %s; %+v", w.seen.of("home"), w.intents("home"), w.c.Stats())
			}
		}()
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete is reconciled, finds nothing, and is not over", func() bool {
			return w.seen.with("home", OperationDelete) > 3
		})
		arrives()
		natstest.Eventually(t, "the disk was found and deleted", func() bool {
			return w.cloud.Called("DELETE disks") > 0 && w.cloud.Count() == 0
		})
		natstest.Eventually(t, "and all is gone", func() bool { return w.gone("home") })
	})
}

func TestAnIntentThatTheReconcilerDoesNotSettleKeepsTheTeardownOwedUntilTheListTells(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Timeout, config.Settle = 300*time.Millisecond, 2*time.Second
		w := newCloudWorld(t, config, func(w *cloudWorld) ReconcilerFunc {
			reconcile := disksOf(w.sites, w.driver, quickly...)
			return func(ctx context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{}, nil // leaves it to the runtime
				}
				return reconcile(ctx, req)
			}
		})
		// The creation is made, never answered, and shows late.
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Unseen = true
			c.Stage = func(stage, call, _ string) {
				if stage == "after" && call == "POST disks" {
					panic(http.ErrAbortHandler)
				}
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the disk was made", func() bool { return w.cloud.Count() == 1 })
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete is reconciled", func() bool {
			return w.seen.with("home", OperationDelete) > 0
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Unseen = false })
		natstest.Eventually(t, "all is gone", func() bool { return w.gone("home") })
		if w.cloud.Count() != 0 {
			t.Errorf("the disk was forgotten: %s", w.cloud.Of("home"))
		}
	})
}

func TestAnIntentNobodyCanTellAboutKeepsTheTeardownOwedAndSaysWhatToDo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := &cloudWorld{world: newWorld(t), cloud: cloudtest.New(t)}
		w.sites = w.world.sites()
		w.driver = cloudtest.NewDriver(w.cloud.Server.URL)
		t.Cleanup(w.driver.HTTP.CloseIdleConnections)
		var settles atomic.Bool
		reconcile := disksOf(w.sites, w.driver, quickly...)
		failed := make(chan error, 1000)
		c, err := New("sites", w.sites, w.seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) && !settles.Load() {
				return Result{}, nil
			}
			return reconcile(ctx, req)
		}), WithBackoff(time.Millisecond, 20*time.Millisecond), WithOnResult(func(r ReconcileResult) {
			if r.Err != nil && r.Operations.Has(OperationDelete) {
				failed <- r.Err
			}
		}))
		must(t, err)
		w.c = c
		w.cloud.Failing("POST disks", http.StatusInternalServerError)
		w.run(c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "an intent is open", func() bool { return w.intentOf("home") != nil })
		must(t, w.sites.Delete(t.Context(), "home"))
		if err := <-failed; !strings.Contains(err.Error(), "external.ReconcileAbsent") ||
			!strings.Contains(err.Error(), "OwnsExternal") {
			t.Errorf("error %v does not say what to do", err)
		}
		if w.gone("home") {
			t.Error("forgotten")
		}
		settles.Store(true)
		natstest.Eventually(t, "settled, all is gone", func() bool { return w.gone("home") })
	})
}

func TestIntentsOfAKeyWhoseRecordSomebodyRemovedAreCleanedUp(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Timeout = 100 * time.Millisecond
		w := newCloudWorld(t, config, nil, WithResyncInterval(time.Second))
		r := w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		// nothing is made: only the intent tells of it
		status := w.cloud.Failing("POST disks", http.StatusInternalServerError)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "an intent is open", func() bool { return w.intentOf("home") != nil })
		r.halt()
		record, err := w.sites.Record(t.Context(), "home")
		must(t, err)
		must(t, w.sites.Delete(t.Context(), "home"))
		must(t, w.sites.Records().Delete(t.Context(), "home", record.Revision))
		status.Store(0)
		w.controller(nil, WithResyncInterval(time.Second))
		w.run(w.c)
		natstest.Eventually(t, "the intent is gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}

func TestDriftIsCorrectedReportedOrIgnoredAndAWishIsAppliedUnderEachPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		policy external.DriftPolicy
		after  string
		events int
	}{
		"correct": {external.DriftCorrect, "=1", 0},
		"report":  {external.DriftReport, "=9", 1},
		"ignore":  {external.DriftIgnore, "=9", 0},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				recorder := toolsrecord.NewFakeRecorder(1000)
				w := newCloudWorld(t, quick, with(external.Drift(test.policy)), WithEventRecorder(butLease{recorder}))
				w.run(w.c)
				must(t, w.sites.Create(t.Context(), sized("home", 1)))
				natstest.Eventually(t, "created", func() bool {
					return w.cloud.Of("home") == "=1" && w.reconciled("home")
				})
				seen := w.seen.with("home", OperationExternal)
				w.cloud.Edit("home", func(d *cloudtest.Disk) { d.Size = 9 })
				natstest.Eventually(t, "the drift is noticed", func() bool {
					return w.seen.with("home", OperationExternal) > seen
				})
				natstest.Eventually(t, "and treated as the policy says", func() bool {
					return w.cloud.Of("home") == test.after && w.reconciled("home")
				})
				if test.events > 0 {
					if event := <-recorder.Events; !strings.Contains(event, ReasonDrifted) ||
						!strings.Contains(event, "size: 9 → 1") {
						t.Errorf("event %q", event)
					}
				} else if len(recorder.Events) > 0 {
					t.Errorf("event %q", <-recorder.Events)
				}
				w.resize("home", 2)
				natstest.Eventually(t, "a wish is applied", func() bool {
					return w.cloud.Of("home") == "=2" && w.reconciled("home")
				})
				must(t, w.sites.Delete(t.Context(), "home"))
				natstest.Eventually(t, "gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
			})
		})
	}
}

func TestAReportedDeletionIsNotUndone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, with(external.Drift(external.DriftReport)))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		natstest.Eventually(t, "listed", func() bool { return w.c.Stats().External["Disk"].Resources == 1 })
		n := w.seen.count("home")
		w.cloud.Remove("home")
		natstest.Eventually(t, "noticed", func() bool {
			return w.seen.count("home") > n && w.c.Stats().External["Disk"].Resources == 0
		})
		if n := w.cloud.Called("POST disks"); n != 1 {
			t.Errorf("%d creates, want 1", n)
		}
		w.resize("home", 2)
		natstest.Eventually(t, "a wish makes it again", func() bool { return w.cloud.Of("home") == "=2" })
	})
}

func TestObserveOnlyChangesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		results := make(chan external.Result[cloudtest.Disk], 100)
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				result, err := external.Reconcile(ctx, w.driver, cloudtest.Spec{Size: 1}, external.ObserveOnly())
				results <- result
				return Result{}, err
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		if result := <-results; result.State != external.StateAbsent {
			t.Errorf("%+v, want Absent", result)
		}
		w.cloud.Add(w.diskFor("home", ""))
		w.c.Enqueue("home", OperationManual)
		if result := <-results; result.State != external.StateSynced || result.Observed.Size != 1 {
			t.Errorf("%+v, want Synced", result)
		}
		w.cloud.Edit("home", func(d *cloudtest.Disk) { d.Size = 5 })
		w.c.Enqueue("home", OperationManual)
		result := <-results
		if result.State != external.StateDrifted || len(result.Drift) != 1 || result.Drift[0].String() != "size: 5 → 1" {
			t.Errorf("%+v, want Drifted", result)
		}
		if n := w.cloud.Called("POST disks") + w.cloud.Called("PUT disks") + w.cloud.Called("DELETE disks"); n != 0 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestSeveralResourcesOfAPrimaryAreToldApartByName(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			root := disksOf(w.sites, w.driver, append(quickly, external.Name("root"))...)
			data := disksOf(w.sites, w.driver, append(quickly, external.Name("data"))...)
			return func(ctx context.Context, req Request) (Result, error) {
				var wait sync.WaitGroup
				var errs [2]error
				for i, reconcile := range []ReconcilerFunc{root, data} {
					wait.Go(func() { _, errs[i] = reconcile(ctx, req) }) // at once: they share what is written down
				}
				wait.Wait()
				return Result{}, errors.Join(errs[:]...)
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "both are there", func() bool {
			return w.cloud.Of("home") == "data=1 root=1" && w.reconciled("home")
		})
		w.resize("home", 2)
		natstest.Eventually(t, "both are changed", func() bool {
			return w.cloud.Of("home") == "data=2 root=2" && w.reconciled("home")
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "both are gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
		if s := w.c.Stats(); s.Failures != 0 {
			t.Errorf("%d failures", s.Failures)
		}
	})
}

func TestAnUpdateOrDeleteThatIsAnsweredAndHasNoEffectIsToldAndTriedAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var put, failed atomic.Int64
		w := apart(t, nil, WithOnResult(func(r ReconcileResult) {
			if r.Err != nil {
				failed.CompareAndSwap(0, time.Now().UnixNano())
			}
		}))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		status := w.cloud.Failing("PUT disks", http.StatusOK) // answered, and nothing is done
		w.cloud.Set(func(c *cloudtest.Cloud) {
			fault := c.Fault
			c.Fault = func(call string, r *http.Request) int {
				if call == "PUT disks" {
					put.CompareAndSwap(0, time.Now().UnixNano())
				}
				return fault(call, r)
			}
		})
		w.resize("home", 2)
		natstest.Eventually(t, "it is waited for", func() bool {
			return strings.Contains(w.condition("home", entity.ReasonRetrying), "result of update")
		})
		natstest.Eventually(t, "then it is told", func() bool {
			return strings.Contains(w.condition("home", entity.ReasonRetrying), "still differs: size: 1 → 2")
		})
		natstest.Eventually(t, "so is the result", func() bool { return failed.Load() > 0 }) // after the record
		if after := time.Duration(failed.Load() - put.Load()); put.Load() == 0 || after < quickSettle {
			t.Errorf("a failure %v after the call, before the time to settle is over", after)
		}
		status.Store(0)
		natstest.Eventually(t, "updated", func() bool { return w.cloud.Of("home") == "=2" && w.reconciled("home") })

		status = w.cloud.Failing("DELETE disks", http.StatusOK)
		failures := w.c.Stats().Failures
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "a delete without effect is told", func() bool {
			return w.c.Stats().Failures > failures
		})
		if w.gone("home") {
			t.Error("forgotten though the disk is there")
		}
		status.Store(0)
		natstest.Eventually(t, "gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}

func TestAChangeThatSomebodyElseHasBegunIsWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		w.cloud.Set(func(c *cloudtest.Cloud) {
			disk := w.diskFor("home", "")
			c.Operations["theirs"] = &cloudtest.Operation{ID: "theirs", Disk: disk, Do: func() {}}
		})
		w.resize("home", 2)
		natstest.Eventually(t, "it is waited for", func() bool {
			return strings.Contains(w.condition("home", entity.ReasonRetrying), "somebody else has begun")
		})
		if n := w.cloud.Called("PUT disks"); n != 0 {
			t.Errorf("%d changes meanwhile", n)
		}
		w.finish("")
		natstest.Eventually(t, "updated", func() bool { return w.cloud.Of("home") == "=2" && w.reconciled("home") })
	})
}

// pollless is a driver without Poll.
type pollless struct {
	external.Driver[cloudtest.Spec, cloudtest.Disk]
}

func TestAnOperationOfADriverThatCannotPollIsAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1000)
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, _ Request) (Result, error) {
				_, err := external.Reconcile(ctx, external.Driver[cloudtest.Spec, cloudtest.Disk](pollless{w.driver}),
					cloudtest.Spec{Size: 1}, quickly...)
				return Result{}, err
			}
		}, WithOnResult(func(r ReconcileResult) { failed <- r.Err }))
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "Poll") {
			t.Errorf("error %v does not say that Poll is missing", err)
		}
	})
}

func TestWhatIsWrongWithOptionsOrTheContextIsSaid(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, _ Request) (Result, error) {
				defer close(done)
				for word, opt := range map[string]external.Option{
					"Settle(-1ns)":       external.Settle(-1),
					"PollInterval(0)":    external.PollInterval(0),
					"PollInterval(-1ns)": external.PollInterval(-1),
					"Drift(9)":           external.Drift(9),
				} {
					if _, err := external.Reconcile(ctx, w.driver, cloudtest.Spec{}, opt); err == nil ||
						!strings.Contains(err.Error(), word) {
						t.Errorf("error %v does not say %q", err, word)
					}
				}
				return Result{}, nil
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		<-done
	})
}
