package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// derive makes a client that shares the cache of another one.
func (w *world) derive(client *entity.Client[*site], statusBucket string) *entity.Client[*site] {
	w.t.Helper()
	derived, err := client.WithStatusBucket(w.t.Context(), statusBucket)
	must(w.t, err)
	w.t.Cleanup(derived.Close)
	return derived
}

// keeper is a controller that owns one entity for each site, of the site's name, and says in its status that it is
// ready.
type keeper struct {
	calls
	sites, owned *entity.Client[*site]
	controller   *Controller[*site]
}

func newKeeper(t *testing.T, name string, sites, owned *entity.Client[*site]) *keeper {
	t.Helper()
	o := &keeper{sites: sites, owned: owned}
	c, err := New(name, sites, o.reconciler(func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return Result{}, nil
		}
		if err != nil {
			return Result{}, err
		}
		_, err = CreateOrUpdate(ctx, owned, &page{ObjectMeta: metav1.ObjectMeta{Name: req.Key}}, func(p *page) error {
			p.Spec.Title = s.Spec.Title
			return nil
		})
		if err != nil {
			return Result{}, err
		}
		s.Status = siteStatus{Ready: true, Note: name}
		return Result{}, SetStatus(ctx, s)
	}), Owns(owned))
	must(t, err)
	o.controller = c
	return o
}

func (o *keeper) reason(t *testing.T, key string) string {
	rec, err := o.sites.Record(t.Context(), key)
	if err != nil {
		return ""
	}
	condition := meta.FindStatusCondition(rec.Conditions, entity.ConditionReconciled)
	if condition == nil {
		return ""
	}
	return condition.Reason
}

// TestTwoControllersOverOneBucketEachHaveTheirOwnLife: both reconcile, and each has its own statuses, records,
// conditions, secondaries and teardown, while they share one cache of documents.
func TestTwoControllersOverOneBucketEachHaveTheirOwnLife(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites := w.sites()
		first := newKeeper(t, "pages", sites, w.pages())
		second := newKeeper(t, "audits", w.derive(sites, "sites-audit"), w.client("Audit", "audits"))
		both := []*keeper{first, second}
		for _, o := range both {
			w.run(o.controller)
		}
		every := func(what string, holds func(o *keeper) bool) {
			t.Helper()
			natstest.Eventually(t, "of both: "+what, func() bool { return holds(first) && holds(second) })
		}

		home := newSite("home", "one")
		must(t, sites.Create(ctx, home))
		for _, o := range both {
			must(t, entity.WaitReconciled(ctx, o.sites, "home", uint64(home.Generation)))
		}
		for o, note := range map[*keeper]string{first: "pages", second: "audits"} {
			cached, err := o.sites.Lister().Get("home")
			must(t, err)
			live, err := o.sites.Get(ctx, "home")
			must(t, err)
			if cached.Status.Note != note || live.Status.Note != note {
				t.Errorf("the client of %s reads the status of %q, and live of %q", note, cached.Status.Note, live.Status.Note)
			}
			if _, err := o.owned.Get(ctx, "home"); err != nil {
				t.Errorf("%s: %v", note, err)
			}
		}
		stream, err := w.js.Stream(ctx, "KV_sites")
		must(t, err)
		if n := stream.CachedInfo().State.Consumers; n != 1 {
			t.Errorf("the documents have %d consumers", n)
		}

		kv, err := w.js.KeyValue(ctx, "sites")
		must(t, err)
		_, err = kv.PutString(ctx, "home", "nonsense")
		must(t, err)
		every("told that it is invalid", func(o *keeper) bool { return o.reason(t, "home") == entity.ReasonInvalid })
		_, err = kv.PutString(ctx, "home", `{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)
		must(t, err)
		every("suspended", func(o *keeper) bool { return o.reason(t, "home") == entity.ReasonSuspended })
		_, err = kv.PutString(ctx, "home", `{"spec":{"title":"two"}}`)
		must(t, err)
		every("reconciled again", func(o *keeper) bool {
			p, err := o.owned.Get(ctx, "home")
			return err == nil && p.Spec.Title == "two" && o.reason(t, "home") == entity.ReasonSynced
		})

		must(t, first.sites.Delete(ctx, "home"))
		every("torn down", func(o *keeper) bool {
			_, noPage := o.owned.Get(ctx, "home")
			_, noRecord := o.sites.Record(ctx, "home")
			return o.with("home", OperationDelete) > 0 && apierrors.IsNotFound(noPage) && apierrors.IsNotFound(noRecord)
		})
	})
}

// TestOneOfTwoControllersOverOneBucketStopsAndStartsAgain: it owes what happened meanwhile, and the other one goes on.
// Either of the two clients may be closed, and the first one never comes back here.
func TestOneOfTwoControllersOverOneBucketStopsAndStartsAgain(t *testing.T) {
	for _, which := range []string{"the derived one", "the first one"} {
		t.Run(which, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx := t.Context()
				sites := w.sites()
				derived := w.derive(sites, "sites-audit")
				going, staying := derived, sites
				if which == "the first one" {
					going, staying = sites, derived
				}
				names := map[*entity.Client[*site]]string{sites: "pages", derived: "audits"}
				pages, audits := w.pages(), w.client("Audit", "audits")
				owned := map[*entity.Client[*site]]*entity.Client[*site]{sites: pages, derived: audits}
				stays := newKeeper(t, names[staying], staying, owned[staying])
				w.run(stays.controller)
				goes := newKeeper(t, names[going], going, owned[going])
				running := w.run(goes.controller)
				for i := range 20 {
					must(t, sites.Create(ctx, newSite(fmt.Sprintf("s%d", i), "one")))
				}
				for _, o := range []*keeper{goes, stays} {
					natstest.Eventually(t, "all are reconciled", func() bool { return len(ready(o)) == 20 })
				}

				running.halt()
				going.Close()
				must(t, staying.Delete(ctx, "s0"))
				must(t, staying.Create(ctx, newSite("late", "one")))
				natstest.Eventually(t, "the other one goes on", func() bool {
					_, err := stays.sites.Record(ctx, "s0")
					return apierrors.IsNotFound(err) && slices.Contains(ready(stays), "late")
				})
				if n := goes.count("late"); n > 0 {
					t.Errorf("the controller that stopped was called %d times", n)
				}

				again := newKeeper(t, names[going], w.derive(staying, going.Config().StatusBucket), owned[going])
				w.run(again.controller)
				natstest.Eventually(t, "it makes up for what it missed", func() bool {
					_, err := again.sites.Record(ctx, "s0")
					return apierrors.IsNotFound(err) && slices.Contains(ready(again), "late") && again.with("s0", OperationDelete) == 1
				})
			})
		})
	}
}

// ready lists the sites whose status a keeper has written.
func ready(o *keeper) (keys []string) {
	list, _ := o.sites.Lister().List(nil)
	for _, s := range list {
		if s.Status.Ready {
			keys = append(keys, s.Name)
		}
	}
	return keys
}

// TestAControllersPermissionsAreThoseOfItsOwnStatusBucket.
func TestAControllersPermissionsAreThoseOfItsOwnStatusBucket(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		second := newKeeper(t, "audits", w.derive(sites, "sites-audit"), w.client("Audit", "audits"))
		set, err := second.controller.Permissions()
		must(t, err)
		if !slices.Contains(set.Publish, "$KV.sites-audit.>") {
			t.Errorf("it may not write its records: %q", set.Publish)
		}
		for _, subject := range set.Publish {
			if strings.Contains(subject, "sites-status") {
				t.Errorf("it needs nothing of the other controller's bucket: %s", subject)
			}
		}
	})
}
