package main

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Website is the user's document. Each page that it lists becomes a Page, and its domain a Route.
type (
	WebsiteSpec struct {
		Domain string   `json:"domain"`
		Pages  []string `json:"pages,omitempty"`
	}
	WebsiteStatus struct {
		URL   string `json:"url,omitempty"`
		Pages int    `json:"pages,omitempty"`
	}
	PageSpec struct {
		Title string `json:"title"`
	}
	RouteSpec struct {
		Host string `json:"host"`
	}
	Website = entity.Object[WebsiteSpec, WebsiteStatus]
	Page    = entity.Object[PageSpec, struct{}]
	Route   = entity.Object[RouteSpec, struct{}]
)

// reconciler makes pages and routes match the websites.
type reconciler struct {
	websites *entity.Client[*Website]
	pages    *entity.Client[*Page]
	routes   *entity.Client[*Route]
}

func newReconciler(ctx context.Context, js jetstream.JetStream) (r *reconciler, err error) {
	r = &reconciler{}
	r.websites, err = entity.NewClient[*Website](ctx, js, entity.Config{Kind: "Website", Bucket: "websites"})
	if err != nil {
		return nil, err
	}
	if r.pages, err = entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"}); err != nil {
		return nil, err
	}
	r.routes, err = entity.NewClient[*Route](ctx, js, entity.Config{Kind: "Route", Bucket: "routes"})
	return r, err
}

// Reconcile is all that you have to write: it reads the desired state and writes what differs. When a website is
// deleted, the runtime deletes what it owns. When somebody changes or deletes an owned object, the runtime calls
// Reconcile again, which restores it.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	site, err := r.websites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil // gone: the runtime deletes what it owned
	}
	if err != nil {
		return controller.Result{}, err
	}
	route := &Route{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}
	if _, err := controller.CreateOrUpdate(ctx, r.routes, route, func(route *Route) error {
		route.Spec.Host = site.Spec.Domain
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	wanted := map[string]bool{}
	for _, title := range site.Spec.Pages {
		page := &Page{ObjectMeta: metav1.ObjectMeta{Name: site.Name + "." + title}}
		wanted[page.Name] = true
		if _, err := controller.CreateOrUpdate(ctx, r.pages, page, func(page *Page) error {
			page.Spec.Title = title
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
	}
	owned, err := r.pages.Lister().OwnedBy("Website", req.Key)
	if err != nil {
		return controller.Result{}, err
	}
	for _, page := range owned {
		if !wanted[page.Name] {
			if err := r.pages.Delete(ctx, page.Name); err != nil && !apierrors.IsNotFound(err) {
				return controller.Result{}, err
			}
		}
	}
	site.Status = WebsiteStatus{URL: fmt.Sprintf("https://%s/", site.Spec.Domain), Pages: len(wanted)}
	return controller.Result{}, controller.SetStatus(ctx, site)
}
