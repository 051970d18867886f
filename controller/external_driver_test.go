package controller

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// disksOf reconciles a site to a disk of spec.pages, and none for 0 or less.
func disksOf(sites *entity.Client[*site], driver *cloudtest.Driver, opts ...external.Option) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if err != nil && !apierrors.IsNotFound(err) {
			return Result{}, err
		}
		var result external.Result[cloudtest.Disk]
		if err != nil || s.Spec.Pages <= 0 {
			result, err = external.ReconcileAbsent(ctx, driver, opts...)
		} else {
			result, err = external.Reconcile(ctx, driver, cloudtest.Spec{Size: s.Spec.Pages}, opts...)
		}
		return Result{RequeueAfter: result.RequeueAfter}, err
	}
}

// cloudWorld is a controller of sites that own disks.
type cloudWorld struct {
	*world
	cloud  *cloudtest.Cloud
	sites  *entity.Client[*site]
	driver *cloudtest.Driver
	config external.Config
	seen   calls
	c      *Controller[*site]
}

// finish ends the operation that was just begun, with a reason why it failed or "". The cloud has begun it a little
// later than it counted the call.
func (w *cloudWorld) finish(failure string) {
	w.t.Helper()
	natstest.Eventually(w.t, "an operation is under way", func() bool { return w.cloud.UnderWay() > 0 })
	w.cloud.Finish(failure)
}

// quick makes an external client quick enough for tests.
var quick = external.Config{Interval: 20 * time.Millisecond, Timeout: 5 * time.Second,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond}

// newCloudWorld makes a controller that reconcile makes; nil is disksOf.
func newCloudWorld(
	t *testing.T, config external.Config, reconcile func(*cloudWorld) ReconcilerFunc, opts ...Option,
) *cloudWorld {
	t.Helper()
	w := &cloudWorld{world: newWorld(t), cloud: cloudtest.New(t), config: config}
	w.sites = w.world.sites()
	w.driver = cloudtest.NewDriver(w.cloud.Server.URL)
	t.Cleanup(w.driver.HTTP.CloseIdleConnections)
	w.controller(reconcile, opts...)
	return w
}

// controller makes a new one, as a new process would.
func (w *cloudWorld) controller(reconcile func(*cloudWorld) ReconcilerFunc, opts ...Option) {
	w.t.Helper()
	if reconcile == nil {
		reconcile = func(w *cloudWorld) ReconcilerFunc { return disksOf(w.sites, w.driver, quickly...) }
	}
	c, err := New("sites", w.sites, w.seen.reconciler(reconcile(w)),
		append([]Option{OwnsExternal(external.Configure(cloudtest.Client{Driver: w.driver}, w.config)),
			WithBackoff(5*time.Millisecond, 50*time.Millisecond)}, opts...)...)
	must(w.t, err)
	w.c = c
}

// quickly makes external.Reconcile quick enough for tests.
var quickly = []external.Option{external.Settle(quickSettle), external.PollInterval(10 * time.Millisecond)}

const quickSettle = 500 * time.Millisecond

func sized(name string, pages int) *site {
	s := newSite(name, "")
	s.Spec.Pages = pages
	return s
}

// resize sets how large the disk of a site has to be.
func (w *cloudWorld) resize(name string, pages int) {
	w.t.Helper()
	must(w.t, w.sites.Patch(w.t.Context(), name, fmt.Appendf(nil, `{"spec":{"pages":%d}}`, pages)))
}

// reconciled tells whether the site's Reconciled condition is True for its present document.
func (w *cloudWorld) reconciled(name string) bool {
	record, err := w.sites.Record(w.t.Context(), name)
	if err != nil {
		return false
	}
	s, err := w.sites.Get(w.t.Context(), name)
	return err == nil && strconv.FormatUint(record.ObservedRevision, 10) == s.ResourceVersion &&
		reasonOf(record) == entity.ReasonSynced
}

func reasonOf(record *entity.Record) string { return conditionOf(record).Reason }

// conditionOf returns the condition of the last reconcile, the zero value if there is none.
func conditionOf(record *entity.Record) metav1.Condition {
	if c := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// condition returns the message of a site's condition, if it has this reason.
func (w *cloudWorld) condition(name, reason string) string {
	record, err := w.sites.Record(w.t.Context(), name)
	if err != nil || reasonOf(record) != reason {
		return ""
	}
	return conditionOf(record).Message
}

// intents returns the reserved key of what is open for a site; "" if nothing is.
func (w *cloudWorld) intents(name string) string {
	data, _, err := w.sites.Records().GetReserved(w.t.Context(), record.IntentsKey(name))
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return string(data)
}

// gone tells whether neither record nor intents of a site are left.
func (w *cloudWorld) gone(name string) bool {
	_, err := w.sites.Record(w.t.Context(), name)
	return apierrors.IsNotFound(err) && w.intents(name) == ""
}

// sleep reports whether ctx has outlived the pause.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
