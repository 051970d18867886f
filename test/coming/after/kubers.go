package after

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Publisher publishes sites, as docs/from-kube-rs.md shows it.
type Publisher struct {
	Pages *entity.Client[*Page]
	DNS   DNS
}

func NewPublisher(
	sites *entity.Client[*Site], p *Publisher, redo <-chan struct{},
) (*controller.Controller[*Site], error) {
	return controller.New("sites", sites, p.Reconciler(),
		controller.Owns(p.Pages),
		controller.WithReconcileAllOn(redo),
		controller.WithDebounce(time.Second, 10*time.Second),
		controller.WithWorkers(8))
}

func (p *Publisher) Reconciler() controller.Reconciler {
	return controller.ForObject(p.apply).WhenDeleted(p.cleanUp).OnError(errorPolicy)
}

func (p *Publisher) apply(ctx context.Context, site *Site) (controller.Result, error) {
	if site.Spec.Title == "" {
		return controller.Result{}, errNoTitle
	}
	page := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	if _, err := controller.CreateOrUpdate(ctx, p.Pages, page, func(page *Page) error {
		page.Spec.Title = site.Spec.Title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: time.Hour}, p.DNS.Point(ctx, site.Spec.Title)
}

func (p *Publisher) cleanUp(ctx context.Context, last *Site) (controller.Result, error) {
	return controller.Result{}, p.DNS.Remove(ctx, last.Spec.Title)
}

func errorPolicy(_ context.Context, _ *Site, err error) error {
	if errors.Is(err, errNoTitle) {
		return controller.TerminalError(err) // await_change
	}
	return controller.RetryAfter(err, 30*time.Second) // requeue
}
