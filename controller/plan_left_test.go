package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// onlyPlanning is a reconciler that does something in plans alone.
func onlyPlanning(do func(ctx context.Context, p *plans) (Result, error)) func(*plans) ReconcilerFunc {
	return func(p *plans) ReconcilerFunc {
		return func(ctx context.Context, _ Request) (Result, error) {
			if !Planning(ctx) {
				return Result{}, nil
			}
			return do(ctx, p)
		}
	}
}

// calmHome has a site that is reconciled.
func (p *plans) calmHome(title string) {
	p.t.Helper()
	must(p.t, p.sites.Create(p.t.Context(), newSite("home", title)))
	natstest.Eventually(p.t, "it is calm", func() bool { return p.c.Explain("home").State == StateCalm })
}

// changeSuspended suspends home, and gives it another title.
func (p *plans) changeSuspended(title string) {
	p.t.Helper()
	must(p.t, p.sites.Patch(p.t.Context(), "home", suspends))
	must(p.t, p.sites.Patch(p.t.Context(), "home", []byte(fmt.Sprintf(`{"spec":{"title":%q}}`, title))))
	isSuspendedNow(p.t, p.sites, "home")
}

// TestAPlanEndsWithItsController, which does not wait for it, whatever the grace period is.
func TestAPlanEndsWithItsController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var inside atomic.Bool
		p := newPlans(t, onlyPlanning(func(ctx context.Context, _ *plans) (Result, error) {
			inside.Store(true)
			<-ctx.Done()
			return Result{}, context.Cause(ctx)
		}), WithGracePeriod(-1))
		r := p.run(p.c)
		p.calmHome("")
		ended := make(chan *Plan, 1)
		go func() {
			plan, err := p.c.Plan(context.Background(), "home")
			if err != nil {
				t.Error(err)
			}
			ended <- plan
		}()
		natstest.Eventually(t, "the plan is made", inside.Load)
		began := time.Now()
		r.halt()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
		if plan := <-ended; !strings.Contains(plan.Error, "stopped") {
			t.Errorf("the plan says %q", plan.Error)
		}
		if _, err := p.c.Plan(context.Background(), "home"); err == nil {
			t.Error("a controller that has ended made a plan")
		}
	})
}

// TestAPlanThatDoesNotReturnShowsAndIsGivenUp: its caller gets an error, the key waits, and the operator reads why.
func TestAPlanThatDoesNotReturnShowsAndIsGivenUp(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		p := newPlans(t, onlyPlanning(func(context.Context, *plans) (Result, error) {
			<-hangs
			return Result{}, nil
		}), WithReconcileTimeout(time.Second))
		p.run(p.c)
		p.calmHome("")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := p.c.Plan(ctx, "home")
		if err == nil || !strings.Contains(err.Error(), "has not returned") || time.Since(began) != 6*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		must(t, p.sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"y"}}`)))
		natstest.Eventually(t, "it shows", func() bool { return len(p.c.Stats().Degraded) > 0 })
		if e := p.c.Explain("home"); e.State != StateRunning || !strings.Contains(e.Says, "A plan of it is made") {
			t.Errorf("it says %s: %s", e.State, e.Says)
		}
		close(hangs)
		natstest.Eventually(t, "it is reconciled after all", func() bool {
			return p.c.Explain("home").State == StateCalm && len(p.c.Stats().Degraded) == 0
		})
	})
}

// TestAPlanInsideItsOwnReconcileIsRefused: it would wait for itself.
func TestAPlanInsideItsOwnReconcileIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var refused atomic.Bool
		p := newPlans(t, func(p *plans) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				_, err := p.c.Plan(ctx, req.Key)
				refused.Store(err != nil && strings.Contains(err.Error(), "context of a reconcile"))
				return Result{}, nil
			}
		})
		p.run(p.c)
		p.calmHome("")
		if !refused.Load() {
			t.Error("it was not refused")
		}
	})
}

// TestAPlanSaysNoPruneOfAReconcileThatIsNotDone, since that has not said all that it wants.
func TestAPlanSaysNoPruneOfAReconcileThatIsNotDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var goesOn atomic.Bool
		p := newPlans(t, func(p *plans) ReconcilerFunc {
			pages := pagesOfTitle(p)
			return func(ctx context.Context, req Request) (Result, error) {
				result, err := pages(ctx, req)
				if goesOn.Load() {
					result.RequeueAfter = time.Hour
				}
				return result, err
			}
		})
		p.run(p.c)
		p.calmHome("a b")
		goesOn.Store(true)
		p.changeSuspended("b c")
		plan := p.plan("home")
		same(t, "the plan", changesOf(plan), []string{"create Page c", "update status of Site home"})
		if plan.RequeueAfter != "1h0m0s" {
			t.Errorf("it is due again in %s", plan.RequeueAfter)
		}
	})
}

// TestInAPlanTheStatusThatIsSetLastCounts, as in a reconcile.
func TestInAPlanTheStatusThatIsSetLastCounts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPlans(t, func(p *plans) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				s, err := p.sites.Get(ctx, req.Key)
				if err != nil {
					return Result{}, err
				}
				begins, ends := s.DeepCopy(), s.DeepCopy()
				begins.Status.Note, ends.Status.Note = "begins "+s.Spec.Title, "done "+s.Spec.Title
				return Result{}, errors.Join(SetStatus(ctx, begins), SetStatus(ctx, ends))
			}
		})
		p.run(p.c)
		p.calmHome("x")
		p.changeSuspended("y")
		plan := p.plan("home")
		if got := field(plan, "home", "status.note"); got != `"done x" → "done y"` || plan.Error != "" {
			t.Errorf("the status: %s, error %q", got, plan.Error)
		}
	})
}

// TestInAPlanADocumentWithATTLLasts from when it would be written.
func TestInAPlanADocumentWithATTLLasts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPlans(t, onlyPlanning(func(ctx context.Context, p *plans) (Result, error) {
			made := newSite("made", "one")
			if err := p.pages.CreateWith(ctx, made, entity.WithTTL(time.Hour)); err != nil {
				return Result{}, err
			}
			made.Spec.Title = "two"
			return Result{}, errors.Join(p.pages.Update(ctx, made),
				p.pages.Patch(ctx, "made", []byte(`{"spec":{"pages":1}}`)),
				p.pages.Records().PutAsyncUnder(ctx, "made", &entity.Record{})(ctx))
		}))
		p.run(p.c)
		p.calmHome("")
		plan := p.plan("home")
		if got := field(plan, "made", "spec.title"); got != ` → "two"` || plan.Error != "" {
			t.Errorf("the title: %s, error %q", got, plan.Error)
		}
	})
}

// failingDriver answers nothing while its API fails.
type failingDriver struct {
	external.Driver[cloudtest.Spec, cloudtest.Disk]
	fails *atomic.Bool
}

func (d failingDriver) Observe(
	ctx context.Context, target external.Target,
) (external.Observation[cloudtest.Disk], error) {
	if d.fails.Load() {
		return external.Unknown[cloudtest.Disk](""), external.Unavailable(errors.New("it is away"))
	}
	return d.Driver.Observe(ctx, target)
}

// TestAPlanThatMeetsAnAPIThatIsAwayHoldsNoOtherKeyUp, and tells nothing of it in health.
func TestAPlanThatMeetsAnAPIThatIsAwayHoldsNoOtherKeyUp(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			d := failingDriver{w.driver, &fails}
			return func(ctx context.Context, req Request) (Result, error) {
				s, err := w.sites.Lister().Get(req.Key)
				if err != nil {
					return Result{}, nil
				}
				_, err = external.Reconcile(ctx, d, cloudtest.Spec{Size: s.Spec.Pages}, quickly...)
				return Result{}, err
			}
		}, WithPlan())
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		fails.Store(true)
		plan, err := w.c.Plan(t.Context(), "home")
		must(t, err)
		if !strings.Contains(plan.Error, "it is away") {
			t.Errorf("the plan says %q", plan.Error)
		}
		time.Sleep(3 * time.Second)
		if degraded := w.c.Stats().Degraded; len(degraded) > 0 {
			t.Errorf("a plan has degraded it: %v", degraded)
		}
		fails.Store(false)
		w.resize("home", 2)
		began := time.Now()
		natstest.Eventually(t, "updated", func() bool { return w.cloud.Of("home") == "=2" && w.reconciled("home") })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the next reconcile took %v", took)
		}
	})
}

// TestAPlanTellsADeleteBehindAnAPIOnce, though the reconciler and the runtime would each make it.
func TestAPlanTellsADeleteBehindAnAPIOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			disks := disksOf(w.sites, w.driver, quickly...)
			return func(ctx context.Context, req Request) (Result, error) {
				if broken.Load() && !Planning(ctx) {
					return Result{}, errors.New("not yet")
				}
				return disks(ctx, req)
			}
		}, WithPlan(), WithBackoff(time.Hour, time.Hour))
		w.run(w.c)
		ctx := t.Context()
		must(t, w.sites.Create(ctx, sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		broken.Store(true)
		must(t, w.sites.Delete(ctx, "home"))
		natstest.Eventually(t, "its teardown fails", func() bool { return w.c.Explain("home").Failures > 0 })
		time.Sleep(10 * time.Minute) // a list shows what it owns
		plan, err := w.c.Plan(ctx, "home")
		must(t, err)
		same(t, "the plan", changesOf(plan), []string{"delete Disk"})
		broken.Store(false)
		w.c.Enqueue("home", OperationDelete)
		natstest.Eventually(t, "it is gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}
