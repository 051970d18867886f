package replica

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/external"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reconcile reports its begin and its end, and what it found.
func (r *replica) reconcile(ctx context.Context, key, operations string) (again time.Duration, err error) {
	found := attempt{Key: key, Operations: operations}
	s, err := r.sites.Lister().Get(key)
	switch {
	case err == nil:
		found.Exists, found.Title, found.By = true, s.Spec.Title, s.Status.By
	case !apierrors.IsNotFound(err):
		return 0, err
	default:
		if last, err := r.lastKnown(ctx, key); err == nil { // the test sees a title that is missing
			found.Title = last.Spec.Title
		}
	}
	r.say(event{Began: &found})
	if found.Exists {
		again, err = r.reconcileSite(ctx, s)
	} else {
		again, err = r.reconcileDelete(ctx)
	}
	ended := found
	if err != nil {
		ended.Error = err.Error()
	}
	r.say(event{Ended: &ended})
	return again, err
}

func (r *replica) reconcileDelete(ctx context.Context) (time.Duration, error) {
	if r.refuseDeletes {
		return 0, errors.New("deletes are refused, as the test wishes")
	}
	if r.cloud == "" {
		return 0, nil
	}
	result, err := external.ReconcileAbsent(ctx, r.disks, diskOptions...)
	return result.RequeueAfter, err
}

func (r *replica) reconcileSite(ctx context.Context, s *site) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(r.work):
	}
	own := &page{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	if err := r.createOrUpdate(ctx, own, func(p *page) error { p.Spec.Title = s.Spec.Title; return nil }); err != nil {
		return 0, err
	}
	again := r.again
	if s.Spec.Disk > 0 {
		result, err := external.Reconcile(ctx, r.disks, diskSpec{Size: s.Spec.Disk}, diskOptions...)
		if err != nil {
			return 0, err
		}
		if result.RequeueAfter > 0 {
			again = result.RequeueAfter
		}
	}
	if s.Status.Title == s.Spec.Title {
		return again, r.setStatus(ctx, s)
	}
	s.Status = siteStatus{Title: s.Spec.Title, By: r.name}
	return again, r.setStatus(ctx, s)
}
