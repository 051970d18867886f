package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changesOf are the changes of a plan, a line each, without their fields.
func changesOf(p *Plan) (lines []string) {
	for _, c := range p.Changes {
		what := c.Kind + " " + c.Key
		if c.Status {
			what = "status of " + what
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Action, what, c.Why)))
	}
	return lines
}

// field is what a plan says of a field: "from → to".
func field(p *Plan, key, path string) string {
	for _, c := range p.Changes {
		for _, f := range c.Fields {
			if c.Key == key && f.Path == path {
				return f.From + " → " + f.To
			}
		}
	}
	return "not said"
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sequences are the last ones of all streams: they move with each write.
func (w *world) sequences() (all []string) {
	w.t.Helper()
	streams := w.js.ListStreams(w.t.Context())
	for info := range streams.Info() {
		all = append(all, fmt.Sprint(info.Config.Name, " ", info.State.LastSeq))
	}
	must(w.t, streams.Err())
	slices.Sort(all)
	return all
}

// plans is a controller whose reconciler the test gives.
type plans struct {
	*world
	sites     *entity.Client[*site]
	pages     *entity.Client[*page]
	c         *Controller[*site]
	planned   atomic.Int64
	mu        sync.Mutex
	reconcile ReconcilerFunc
}

func newPlans(t *testing.T, reconcile func(*plans) ReconcilerFunc, opts ...Option) *plans {
	t.Helper()
	p := &plans{world: newWorld(t)}
	p.sites, p.pages = p.world.sites(), p.world.pages()
	p.reconcile = reconcile(p)
	c, err := New("sites", p.sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		if Planning(ctx) {
			p.planned.Add(1)
		}
		p.mu.Lock()
		f := p.reconcile
		p.mu.Unlock()
		return f(ctx, req)
	}), append([]Option{Owns(p.pages, WithPrune()), WithPlan(), WithBackoff(time.Hour, time.Hour)}, opts...)...)
	must(t, err)
	p.c = c
	return p
}

func (p *plans) plan(key string) *Plan {
	p.t.Helper()
	before := p.sequences()
	plan, err := p.c.Plan(p.t.Context(), key)
	must(p.t, err)
	same(p.t, "the plan has written", p.sequences(), before)
	return plan
}

// pagesOfTitle makes a page for each word of the title, and says so in the status.
func pagesOfTitle(p *plans) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := p.sites.Get(ctx, req.Key)
		if err != nil {
			return Result{}, nil
		}
		for _, word := range strings.Fields(s.Spec.Title) {
			_, err := CreateOrUpdate(ctx, p.pages, newSite(word, ""), func(page *page) error {
				page.Spec.Pages = s.Spec.Pages
				return nil
			})
			if err != nil {
				return Result{}, err
			}
		}
		s.Status.Note = s.Spec.Title
		return Result{}, SetStatus(ctx, s)
	}
}

func suspended(name, title string) *site {
	s := newSite(name, title)
	s.Annotations = map[string]string{entity.SuspendAnnotation: "true"}
	return s
}

var (
	suspends = []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)
	resumes  = []byte(`{"metadata":{"annotations":{"nagi/suspend":null}}}`)
)

// isSuspendedNow waits until the record says so of the latest revision.
func isSuspendedNow(t *testing.T, sites *entity.Client[*site], name string) {
	t.Helper()
	natstest.Eventually(t, "the record says that it is suspended", func() bool {
		s, err := sites.Get(t.Context(), name)
		rec, ok := sites.Records().Cached(name)
		if err != nil || !ok {
			return false
		}
		c := meta.FindStatusCondition(rec.Conditions, entity.ConditionReconciled)
		return c != nil && c.Reason == entity.ReasonSuspended && c.ObservedGeneration == s.Generation
	})
}

// TestAPlanSaysWhatAReconcileThenDoes, for a document that is new, for one that has changed, and for one that is as it
// was; and it writes nothing, and shows nothing to who has another context.
func TestAPlanSaysWhatAReconcileThenDoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPlans(t, pagesOfTitle)
		p.run(p.c)
		ctx := t.Context()
		must(t, p.sites.Create(ctx, suspended("home", "a b")))
		isSuspendedNow(t, p.sites, "home")
		plan := p.plan("home")
		same(t, "of a new document", changesOf(plan), []string{"create Page a", "create Page b", "update status of Site home"})
		if got := field(plan, "a", "metadata.annotations.kumori/ownerkey"); got != ` → "home"` {
			t.Errorf("its owner is %s", got)
		}
		if got := field(plan, "home", "status.note"); got != ` → "a b"` {
			t.Errorf("the status is %s", got)
		}
		if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "resumed") || plan.Error != "" || plan.Waits != "" {
			t.Errorf("it says %+v", plan)
		}
		if _, err := p.pages.Lister().Get("a"); !apierrors.IsNotFound(err) {
			t.Errorf("a lister shows what was planned: %v", err)
		}
		must(t, p.sites.Patch(ctx, "home", resumes))
		natstest.Eventually(t, "it is reconciled", func() bool { return p.c.Explain("home").State == StateCalm })
		if plan = p.plan("home"); len(plan.Changes) != 0 || len(plan.Notes) != 0 {
			t.Errorf("of what is as it is to be: %v, %v", changesOf(plan), plan.Notes)
		}

		must(t, p.sites.Patch(ctx, "home", suspends))
		must(t, p.sites.Patch(ctx, "home", []byte(`{"spec":{"title":"b c","pages":3}}`)))
		isSuspendedNow(t, p.sites, "home")
		plan = p.plan("home")
		same(t, "of a change", changesOf(plan), []string{"update Page b", "create Page c", "update status of Site home",
			"delete Page a it is not wanted any more"})
		if got := field(plan, "b", "spec.pages"); got != " → 3" {
			t.Errorf("of what is there: %s", got)
		}
		must(t, p.sites.Patch(ctx, "home", resumes))
		natstest.Eventually(t, "it has happened", func() bool {
			pages, err := p.pages.Lister().List(nil)
			return err == nil && len(pages) == 2 && p.c.Explain("home").State == StateCalm
		})
	})
}

// TestAPlanOfATeardownSaysWhatWouldGo: what the reconciler deletes, and what the runtime deletes after it.
func TestAPlanOfATeardownSaysWhatWouldGo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		p := newPlans(t, func(p *plans) ReconcilerFunc {
			pages := pagesOfTitle(p)
			return func(ctx context.Context, req Request) (Result, error) {
				if !req.Operations.Has(OperationDelete) {
					return pages(ctx, req)
				}
				if broken.Load() && !Planning(ctx) {
					return Result{}, errors.New("not yet")
				}
				return Result{}, p.pages.Delete(ctx, "a")
			}
		})
		p.run(p.c)
		ctx := t.Context()
		must(t, p.sites.Create(ctx, newSite("home", "a b")))
		natstest.Eventually(t, "it is reconciled", func() bool { return p.c.Explain("home").State == StateCalm })
		broken.Store(true)
		must(t, p.sites.Delete(ctx, "home"))
		natstest.Eventually(t, "its teardown fails", func() bool { return p.c.Explain("home").Failures > 0 })
		plan := p.plan("home")
		same(t, "of a teardown", changesOf(plan), []string{"delete Page a", "delete Page b its owner is gone"})
		if plan.Operations != "Delete" {
			t.Errorf("it was called with %s", plan.Operations)
		}
		broken.Store(false)
		p.c.Enqueue("home", OperationDelete)
		natstest.Eventually(t, "it is over", func() bool { return p.c.Stats().TornDown == 1 })
		if _, err := p.c.Plan(ctx, "home"); !apierrors.IsNotFound(err) {
			t.Errorf("of what is not there: %v", err)
		}
	})
}

// TestInAPlanAReconcileSeesItsOwnWrites where it reads live, with conflicts as there would be.
func TestInAPlanAReconcileSeesItsOwnWrites(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var errs []error
		check := func(what string, ok bool, err error) {
			if !ok {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
		}
		p := newPlans(t, func(p *plans) ReconcilerFunc {
			return func(ctx context.Context, _ Request) (Result, error) {
				if !Planning(ctx) {
					return Result{}, nil
				}
				made := newSite("made", "one")
				check("create", p.pages.Create(ctx, made) == nil, nil)
				err := p.pages.Create(ctx, newSite("made", "one"))
				check("create again", apierrors.IsAlreadyExists(err), err)
				old := made.DeepCopy()
				made.Spec.Title = "two"
				err = p.pages.Update(ctx, made)
				check("update", err == nil, err)
				err = p.pages.Update(ctx, old)
				check("update of what is old", apierrors.IsConflict(err), err)
				err = p.pages.Patch(ctx, "made", []byte(`{"spec":{"pages":9007199254740993}}`))
				check("patch", err == nil, err)
				got, err := p.pages.Get(ctx, "made")
				check("get", err == nil && got.Spec.Title == "two" && got.Spec.Pages == 9007199254740993, err)
				got.Status.Ready = true
				err = p.pages.UpdateStatus(ctx, got)
				check("status", err == nil, err)
				got, err = p.pages.Get(ctx, "made")
				check("get with status", err == nil && got.Status.Ready, err)

				err = p.pages.Delete(ctx, "there")
				check("delete", err == nil, err)
				_, err = p.pages.Get(ctx, "there")
				check("get of what is deleted", apierrors.IsNotFound(err), err)
				err = p.pages.Delete(ctx, "there")
				check("delete again", apierrors.IsNotFound(err), err)
				check("made and deleted", p.pages.Create(ctx, newSite("brief", "")) == nil &&
					p.pages.Delete(ctx, "brief") == nil, nil)
				return Result{RequeueAfter: time.Minute}, errors.Join(errs...)
			}
		})
		p.run(p.c)
		must(t, p.pages.Create(t.Context(), newSite("there", "x")))
		must(t, p.sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is reconciled", func() bool { return p.c.Explain("home").State == StateCalm })
		plan := p.plan("home")
		if plan.Error != "" || plan.RequeueAfter != "1m0s" {
			t.Errorf("it says %q, and is due again in %s", plan.Error, plan.RequeueAfter)
		}
		same(t, "the changes", changesOf(plan), []string{"create Page made", "create status of Page made", "delete Page there"})
		if got := field(plan, "made", "spec.pages"); got != " → 9007199254740993" {
			t.Errorf("a large number: %s", got)
		}
		if _, ok := p.pages.Records().Cached("made"); ok {
			t.Error("a record that was planned is in the cache")
		}
	})
}

// TestAPlanWaitsForTheReconcileThatGoesOnAndTheNextOneForThePlan.
func TestAPlanWaitsForTheReconcileThatGoesOnAndTheNextOneForThePlan(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var inside, most atomic.Int64
		p := newPlans(t, func(*plans) ReconcilerFunc {
			return func(ctx context.Context, _ Request) (Result, error) {
				now := inside.Add(1)
				defer inside.Add(-1)
				most.Store(max(most.Load(), now))
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				return Result{}, ctx.Err()
			}
		}, WithWorkers(4))
		p.run(p.c)
		must(t, p.sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is reconciled", func() bool { return inside.Load() == 1 })
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := p.c.Plan(t.Context(), "home")
				must(t, err)
			})
			p.c.Enqueue("home", OperationPut)
		}
		all.Wait()
		natstest.Eventually(t, "it is calm", func() bool { return p.c.Explain("home").State == StateCalm })
		if most.Load() != 1 {
			t.Errorf("%d reconciles of one key ran at once", most.Load())
		}
		soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		plan, err := p.c.Plan(soon, "home")
		must(t, err)
		if !strings.Contains(plan.Error, "deadline") {
			t.Errorf("a plan that ran out of time says %q", plan.Error)
		}
	})
}

// secretSpec has a field that must not be shown.
type secretSpec struct {
	User  string `json:"user,omitempty"`
	Token string `json:"token,omitempty" nagi:"secret"`
}

// TestAPlanHidesSecrets, and says that they change.
func TestAPlanHidesSecrets(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		type account = entity.Object[secretSpec, siteStatus]
		w := newWorld(t)
		accounts, err := entity.NewClient[*account](t.Context(), w.js, entity.Config{
			Kind: "Account", Bucket: "accounts"})
		must(t, err)
		t.Cleanup(accounts.Close)
		sites := w.sites()
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if !Planning(ctx) {
				return Result{}, nil
			}
			_, err := CreateOrUpdateWith(ctx, accounts, &account{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
				func(a *account) error {
					a.Spec = secretSpec{User: "joe", Token: "hunter2"}
					return nil
				}, WithAdopt())
			return Result{}, err
		}), Owns(accounts), WithPlan())
		must(t, err)
		w.run(c)
		must(t, accounts.Create(t.Context(), &account{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: secretSpec{Token: "hunter1"}}))
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is reconciled", func() bool { return c.Explain("home").State == StateCalm })
		plan, err := c.Plan(t.Context(), "home")
		must(t, err)
		if got := field(plan, "a", "spec.token"); got != dryrun.Hidden+" → "+dryrun.Hidden {
			t.Errorf("the token: %s", got)
		}
		if got := field(plan, "a", "spec.user"); got != ` → "joe"` {
			t.Errorf("the user: %s", got)
		}
		if strings.Contains(fmt.Sprint(plan), "hunter") {
			t.Errorf("a secret is told: %+v", plan)
		}
	})
}

// TestAPlanAsksAnAPIWhatThereIsAndChangesNothingThere.
func TestAPlanAsksAnAPIWhatThereIsAndChangesNothingThere(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil, WithPlan())
		w.run(w.c)
		ctx := t.Context()
		must(t, w.sites.Create(ctx, sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		must(t, w.sites.Patch(ctx, "home", suspends))
		w.resize("home", 2)
		must(t, w.sites.Create(ctx, func() *site {
			s := sized("new", 3)
			s.Annotations = map[string]string{entity.SuspendAnnotation: "true"}
			return s
		}()))
		isSuspendedNow(t, w.sites, "home")
		isSuspendedNow(t, w.sites, "new")
		before, applied := w.sequences(), w.cloud.Called("Apply")
		for name, want := range map[string]string{"home": "update Disk", "new": "create Disk"} {
			plan, err := w.c.Plan(ctx, name)
			must(t, err)
			same(t, "of "+name, changesOf(plan), []string{want})
			if !strings.Contains(plan.Waits, "planned") || plan.RequeueAfter == "" {
				t.Errorf("of %s it says %+v", name, plan)
			}
		}
		same(t, "written are", w.sequences(), before)
		if n := w.cloud.Called("Apply"); n != applied || w.cloud.Of("home") != "=1" || w.cloud.Of("new") != "" {
			t.Errorf("the API was changed: %d calls of Apply, %q, %q", n-applied, w.cloud.Of("home"), w.cloud.Of("new"))
		}
	})
}

// TestAControllerThatHasNotSaidSoMakesNoPlans, and none makes them before its caches are complete.
func TestAControllerThatHasNotSaidSoMakesNoPlans(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, err := New("sites", w.sites(), ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, nil
		}))
		must(t, err)
		if _, err := c.Plan(t.Context(), "home"); err == nil || !strings.Contains(err.Error(), "WithPlan") {
			t.Errorf("it says %v", err)
		}
		p := newPlans(t, pagesOfTitle)
		if _, err := p.c.Plan(t.Context(), "home"); err == nil || !strings.Contains(err.Error(), "try again") {
			t.Errorf("before Run it says %v", err)
		}
	})
}
