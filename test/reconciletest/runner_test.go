package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAReconcileSetsStatusOwnsAndHandsBackWhatItWroteInOrder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop", "z", "a", "m")
		got := w.run(w.Reconcile).Reconcile(t.Context(), "shop", controller.OperationPut)
		succeeded(t, got)
		wrote(t, got, "created Page shop.z", "created Page shop.a", "created Page shop.m")
		if got.Status == nil || got.Status.Status.Pages != 3 {
			t.Errorf("status of %+v", got.Status)
		}
		if got.Condition.Reason != entity.ReasonSynced || got.Condition.Status != metav1.ConditionTrue {
			t.Errorf("condition %+v", got.Condition)
		}
		page := &Page{}
		if err := got.Written[1].Into(page); err != nil || page.Spec.Title != "a" {
			t.Errorf("document %s: %v", got.Written[1].Document, err)
		}
		if kind, key, ok := entity.OwnerOf(page); kind != "Site" || key != "shop" || !ok || entity.InstanceOf(page) == "" {
			t.Errorf("owner %s %q of installation %q", kind, key, entity.InstanceOf(page))
		}
		if listed, err := w.pages.Lister().OwnedBy("Site", "shop"); err != nil || len(listed) != 3 {
			t.Errorf("the lister shows %d pages: %v", len(listed), err)
		}
	})
}

func TestASecondReconcileIsCalm(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop", "a", "b")
		run := w.run(w.Reconcile)
		succeeded(t, run.Reconcile(t.Context(), "shop"))
		again := run.Reconcile(t.Context(), "shop", controller.OperationResync)
		succeeded(t, again)
		wrote(t, again)
		if len(again.Events) > 0 {
			t.Errorf("events %v", again.Events)
		}
	})
}

func TestWhatTheTestWroteBeforeIsSeenAndNotListed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		run := w.run(w.Reconcile)
		for i := range 30 {
			w.put("shop", fmt.Sprint("page", i))
			w.raw("pages", "shop.other", fmt.Sprintf(`{"spec":{"title":"%d"}}`, i))
			got := run.Reconcile(t.Context(), "shop")
			succeeded(t, got)
			wrote(t, got, fmt.Sprint("created Page shop.page", i))
		}
	})
}

func TestTheReconcilerIsToldTheOperations(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop")
		run := w.run(w.Reconcile)
		run.Reconcile(t.Context(), "shop")
		run.Reconcile(t.Context(), "shop", controller.OperationRetry, controller.OperationSecondary)
		run.Delete(t.Context(), "shop")
		if want := []string{"Put", "Secondary|Retry", "Delete"}; !slices.Equal(w.asked, want) {
			t.Errorf("asked with %q, want %q", w.asked, want)
		}
	})
}

func TestResultsErrorsAndPanicsAreAsInAController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop")
		var result controller.Result
		var err error
		called := 0
		run := w.run(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			if called++; err != nil && err.Error() == "panic" {
				panic("at the disco")
			}
			return result, err
		})

		result.RequeueAfter = time.Minute
		got := run.Reconcile(t.Context(), "shop")
		if got.Err != nil || got.Result != result || got.Status != nil {
			t.Errorf("requeue: %+v", got)
		}
		err = errBoom
		if got = run.Reconcile(t.Context(), "shop"); got.Err != errBoom || got.Condition.Reason != entity.ReasonRetrying {
			t.Errorf("error: %+v", got)
		}
		err = errors.New("panic")
		if got = run.Reconcile(t.Context(), "shop"); got.Err == nil || !strings.Contains(got.Err.Error(), "at the disco") {
			t.Errorf("panic: %+v", got)
		}
		err = controller.TerminalError(errBoom)
		got = run.Reconcile(t.Context(), "shop")
		if !errors.Is(got.Err, errBoom) || got.Condition.Reason != entity.ReasonTerminal {
			t.Errorf("terminal: %+v", got)
		}
		if len(got.Events) != 1 || got.Events[0].Reason != entity.ReasonTerminal || got.Events[0].Key != "shop" {
			t.Errorf("events of a terminal error: %v", got.Events)
		}

		called, err = 0, nil
		got = run.Reconcile(t.Context(), "shop", controller.OperationResync)
		if !errors.Is(got.Err, reconciletest.ErrNotReconciled) || called > 0 || !strings.Contains(got.Err.Error(), "boom") {
			t.Errorf("a parked key was reconciled (%d): %+v", called, got)
		}
		if got = run.Reconcile(t.Context(), "shop", controller.OperationManual); got.Err != nil || called != 1 {
			t.Errorf("a key that was asked for by hand: %+v", got)
		}
	})
}

func TestAReconcileThatIsCancelledSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop")
		run := w.run(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			<-ctx.Done()
			return controller.Result{}, context.Cause(ctx)
		}, controller.WithReconcileTimeout(time.Millisecond))
		if got := run.Reconcile(t.Context(), "shop"); !errors.Is(got.Err, controller.ErrReconcileTimeout) {
			t.Errorf("got %+v", got)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		run = w.run(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			cancel(errBoom)
			return controller.Result{}, context.Cause(ctx)
		})
		if got := run.Reconcile(ctx, "shop"); !errors.Is(got.Err, errBoom) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestWhatThePrimaryDoesNotOwnIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := &Page{ObjectMeta: metav1.ObjectMeta{Name: "shop.theirs"}}
		entity.SetOwner(other, "Site", "other", "")
		if err := w.pages.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		w.raw("pages", "shop.somebodys", `{"spec":{"title":"mine"}}`)
		run := w.run(w.Reconcile)

		w.put("shop", "theirs")
		got := run.Reconcile(t.Context(), "shop")
		if owned, ok := errors.AsType[*controller.AlreadyOwnedError](got.Err); !ok || owned.OwnerKey != "other" {
			t.Errorf("another's page: %v", got.Err)
		}
		wrote(t, got)
		w.put("shop", "somebodys")
		got = run.Reconcile(t.Context(), "shop")
		if _, ok := errors.AsType[*controller.ResourceExistsError](got.Err); !ok {
			t.Errorf("a page without an owner: %v", got.Err)
		}
		wrote(t, got)
		if len(got.Events) != 1 || got.Events[0].Reason != "ErrResourceExists" || got.Events[0].Kind != "Site" {
			t.Errorf("events %v", got.Events)
		}
	})
}

func TestEventsOfTheReconcilerAndOfTheRuntimeAreHandedBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop")
		mine := &reconciletest.Recorder{}
		run := w.run(func(_ context.Context, req controller.Request) (controller.Result, error) {
			site, err := w.sites.Lister().Get(req.Key)
			if err != nil {
				return controller.Result{}, err
			}
			mine.Eventf(site, corev1.EventTypeNormal, "Looked", "at %s", req.Key)
			return controller.Result{}, controller.TerminalError(errBoom)
		}, controller.WithEventRecorder(mine))
		for range 2 {
			got := run.Reconcile(t.Context(), "shop")
			want := "[Normal Looked Site shop: at shop Warning Terminal Site shop: terminal error: boom]"
			if fmt.Sprint(got.Events) != want {
				t.Errorf("events %v, want %v", got.Events, want)
			}
		}
		if len(mine.Events()) != 4 {
			t.Errorf("all events: %v", mine.Events())
		}
		// A recorder of another kind gets them too.
		theirs := &reconciletest.Recorder{}
		run = w.run(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, controller.TerminalError(errBoom)
		}, controller.WithEventRecorder(struct{ controller.EventRecorder }{theirs}))
		if got := run.Reconcile(t.Context(), "shop"); len(got.Events) != 1 || len(theirs.Events()) != 1 {
			t.Errorf("events %v, and %v", got.Events, theirs.Events())
		}
	})
}

func TestADeleteIsTornDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop", "a", "b")
		var run *reconciletest.Runner[*Site]
		var last *Site
		run = w.run(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if req.Operations.Has(controller.OperationDelete) {
				var err error
				last, err = run.Controller().LastKnown(ctx, req.Key)
				return controller.Result{}, err
			}
			return w.Reconcile(ctx, req)
		})
		succeeded(t, run.Reconcile(t.Context(), "shop"))
		got := run.Delete(t.Context(), "shop")
		succeeded(t, got)
		slices.SortFunc(got.Written, func(a, b reconciletest.Write) int { return strings.Compare(a.Key, b.Key) })
		wrote(t, got, "deleted Page shop.a", "deleted Page shop.b") // a cascade has no order
		if !got.TornDown || last == nil || len(last.Spec.Pages) != 2 || got.Condition.Reason != "" {
			t.Errorf("torn down %v, last known %+v, condition %+v", got.TornDown, last, got.Condition)
		}
		if _, err := w.sites.Record(t.Context(), "shop"); err == nil {
			t.Error("the record is still there")
		}
		w.put("shop", "c")
		got = run.Reconcile(t.Context(), "shop")
		wrote(t, got, "created Page shop.c")
	})
}

func TestATeardownThatFailsOrIsNotFinishedStaysOwed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop", "a")
		var result controller.Result
		var fails error
		run := w.run(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if req.Operations.Has(controller.OperationDelete) {
				return result, fails
			}
			return w.Reconcile(ctx, req)
		})
		run.Reconcile(t.Context(), "shop")
		fails = errBoom
		got := run.Delete(t.Context(), "shop")
		if got.Err != errBoom || got.TornDown || len(got.Written) > 0 {
			t.Errorf("got %+v", got)
		}
		fails, result.RequeueAfter = nil, time.Minute
		if got = run.Delete(t.Context(), "shop"); got.Err != nil || got.TornDown || got.Result != result {
			t.Errorf("got %+v", got)
		}
		result.RequeueAfter = 0
		got = run.Reconcile(t.Context(), "shop", controller.OperationDelete)
		wrote(t, got, "deleted Page shop.a")
		if !got.TornDown {
			t.Errorf("got %+v", got)
		}
	})
}

// TestADeleteThatNobodySawIsTornDown: the document went before the controller of this test began.
func TestADeleteThatNobodySawIsTornDown(t *testing.T) {
	w := newWorld(t)
	w.put("shop", "a")
	t.Run("before", func(t *testing.T) {
		reconciletest.New(t, w.sites, w, controller.Owns(w.pages)).Reconcile(t.Context(), "shop")
	})
	if err := w.sites.Delete(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	got := w.run(w.Reconcile).Reconcile(t.Context(), "shop", controller.OperationDelete)
	succeeded(t, got)
	wrote(t, got, "deleted Page shop.a")
}

func TestWhatAControllerWouldNotReconcileIsToldWhy(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.raw("sites", "garbled", `{"spec":`)
		w.raw("sites", "suspended", `{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)
		run := w.run(w.Reconcile)
		for key, why := range map[string]string{
			"garbled": entity.ReasonInvalid, "suspended": entity.ReasonSuspended, "not a key": "no primary can have such a key",
		} {
			got := run.Reconcile(t.Context(), key)
			if !errors.Is(got.Err, reconciletest.ErrNotReconciled) || !strings.Contains(got.Err.Error(), why) {
				t.Errorf("%s: %v", key, got.Err)
			}
		}
		if len(w.asked) > 0 {
			t.Errorf("reconciled %q", w.asked)
		}
	})
}

func TestWhatIsNotWantedAnyMoreIsPruned(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		run := reconciletest.New(t, w.sites, w, controller.Owns(w.pages, controller.WithPrune()))
		w.put("shop", "old", "kept")
		succeeded(t, run.Reconcile(t.Context(), "shop"))
		w.put("shop", "new", "kept")
		got := run.Reconcile(t.Context(), "shop")
		succeeded(t, got)
		wrote(t, got, "created Page shop.new", "deleted Page shop.old")
	})
}

func TestProofsOfOwnershipAreGivenAndAskedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop", "a")
		secret := []byte(strings.Repeat("s", 32))
		run := w.run(w.Reconcile, controller.WithOwnerProof(secret))
		got := run.Reconcile(t.Context(), "shop")
		succeeded(t, got)
		forged := &Page{ObjectMeta: metav1.ObjectMeta{Name: "forged"}}
		entity.SetOwner(forged, "Site", "shop", run.Controller().Instance())
		if err := w.pages.Create(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
		wrote(t, run.Delete(t.Context(), "shop"), "deleted Page shop.a")
	})
}

func TestAnOwnerInAnotherNamespaceIsRefusedUnlessItsSourceIsOpen(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites = client[*Site](t, w.js, entity.Config{Kind: "Site", Bucket: "nsites", Namespaced: true})
		w.pages = client[*Page](t, w.js, entity.Config{Kind: "Page", Bucket: "npages", Namespaced: true})
		site := &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "eu", Name: "shop"}}
		if err := w.sites.Create(t.Context(), site); err != nil {
			t.Fatal(err)
		}
		namespace := "us"
		r := controller.ReconcilerFunc(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			page := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "home"}}
			_, err := controller.CreateOrUpdate(ctx, w.pages, page, func(*Page) error { return nil })
			return controller.Result{}, err
		})
		got := w.run(r).Reconcile(t.Context(), "eu/shop")
		if got.Err == nil || !strings.Contains(got.Err.Error(), "another namespace") {
			t.Errorf("got %v", got.Err)
		}
		open := reconciletest.New(t, w.sites, r, controller.Owns(w.pages, controller.WithOwnersInOtherNamespaces()))
		wrote(t, open.Reconcile(t.Context(), "eu/shop"), "created Page us/home")
		namespace = "eu"
		wrote(t, w.run(r).Reconcile(t.Context(), "eu/shop"), "created Page eu/home")
	})
}

// TestWritesThatHaveNoSourceAreListedToo: those past clients and contexts, and statuses of others.
func TestWritesThatHaveNoSourceAreListedToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop")
		w.raw("pages", "home", `{}`)
		got := w.run(func(context.Context, controller.Request) (controller.Result, error) {
			ctx := context.Background()
			kv, err := w.js.CreateOrUpdateKeyValue(ctx, counters)
			for _, value := range []string{"1", "2"} {
				if err == nil {
					_, err = kv.PutString(ctx, "visits", value)
				}
			}
			page, getErr := w.pages.Get(ctx, "home")
			page.Status.Pages = 1
			time.Sleep(time.Nanosecond) // writes are listed in the order of their times
			err = errors.Join(err, getErr, w.pages.UpdateStatus(ctx, page))
			time.Sleep(time.Nanosecond)
			return controller.Result{}, errors.Join(err, kv.Delete(ctx, "gone"))
		}).Reconcile(t.Context(), "shop")
		succeeded(t, got)
		if len(got.Written) == 0 || string(got.Written[0].Document) != "2" {
			t.Errorf("documents of %v", got.Written)
		}
		wrote(t, got, "created counters/visits", "created pages-status/home", "deleted counters/gone")
	})
}

func TestTheControllerOfARunnerCannotBeRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.run(w.Reconcile).Controller().Run(t.Context()); err == nil {
			t.Error("it ran")
		}
	})
}
