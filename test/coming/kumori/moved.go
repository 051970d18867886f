package kumori

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Moved is the controller on package controller.
func Moved(c Clients, themeOf func(context.Context, *Theme) ([]string, error)) (*controller.Controller[*Site], error) {
	return controller.New("sites", c.Sites, &SiteReconciler{c},
		controller.Owns(c.Pages), controller.Watches(c.Themes, themeOf), controller.WithResyncInterval(time.Minute))
}

type SiteReconciler struct{ Clients }

func (r *SiteReconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	site, err := r.Sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil // the runtime deletes the pages
	}
	if err != nil {
		return controller.Result{}, err
	}
	page := &Page{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}
	if _, err := controller.CreateOrUpdate(ctx, r.Pages, page, func(page *Page) error {
		page.Spec.Title = site.Spec.Title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	site.Status.Published = true
	return controller.Result{}, controller.SetStatus(ctx, site)
}
