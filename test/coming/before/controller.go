package before

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// DNS is an API that the controller calls.
type DNS interface {
	Point(ctx context.Context, name string) error
	Remove(ctx context.Context, name string) error
}

const finalizer = "sites.example.com/dns"

type SiteReconciler struct {
	client.Client
	DNS    DNS
	Events events.EventRecorder
}

func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"title": site.Spec.Title}
		return controllerutil.SetControllerReference(site, page, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.DNS.Point(ctx, site.Name); err != nil {
		return ctrl.Result{}, err
	}
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Published", Status: metav1.ConditionTrue, Reason: "Published", ObservedGeneration: site.Generation,
	})
	return ctrl.Result{RequeueAfter: time.Hour}, r.Status().Update(ctx, site)
}

func (r *SiteReconciler) finalize(ctx context.Context, site *Site) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	if err := r.DNS.Remove(ctx, site.Name); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(site, finalizer)
	return r.Update(ctx, site)
}
