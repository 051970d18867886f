package after

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type SiteSpec struct {
	Title string `json:"title"`
	Theme string `json:"theme,omitempty"`
}

type SiteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type PageSpec struct {
	Title string `json:"title"`
}

type (
	Site  = entity.Object[SiteSpec, SiteStatus]
	Page  = entity.Object[PageSpec, entity.None]
	Theme = entity.Object[struct{}, entity.None]
)

// DNS is an API that the controller calls.
type DNS interface {
	Point(ctx context.Context, key string) error
	Remove(ctx context.Context, key string) error
}

type SiteReconciler struct {
	Sites  *entity.Client[*Site]
	Pages  *entity.Client[*Page]
	DNS    DNS
	Events controller.EventRecorder
}

func (r *SiteReconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	site, err := r.Sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, r.DNS.Remove(ctx, req.Key) // then the runtime deletes the page
	}
	if err != nil {
		return controller.Result{}, err
	}
	page := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	if _, err := controller.CreateOrUpdate(ctx, r.Pages, page, func(page *Page) error {
		page.Spec.Title = site.Spec.Title // the owner is set for you
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	if err := r.DNS.Point(ctx, req.Key); err != nil {
		return controller.Result{}, err
	}
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Published", Status: metav1.ConditionTrue, Reason: "Published", ObservedGeneration: site.Generation,
	})
	return controller.Result{RequeueAfter: time.Hour}, controller.SetStatus(ctx, site)
}
