package after

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nats-io/nats.go/jetstream"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
)

var errNoTitle = errors.New("spec.title: a site needs a title")

func (r *SiteReconciler) validate(site *Site) error {
	if site.Spec.Title == "" {
		r.Events.Event(site, corev1.EventTypeWarning, "Untitled", "a site needs a title")
		return controller.TerminalError(errNoTitle)
	}
	return nil
}

// Validated is a reconciler that is given the site, for a controller that needs no more.
func (r *SiteReconciler) Validated() controller.Reconciler {
	return controller.ForObject(func(_ context.Context, site *Site) (controller.Result, error) {
		return controller.Result{}, r.validate(site)
	})
}

// WithDNS is a reconciler whose clean-up needs the last document.
func WithDNS(dns DNS) controller.Reconciler {
	point := func(ctx context.Context, site *Site) (controller.Result, error) {
		return controller.Result{}, dns.Point(ctx, site.Spec.Title)
	}
	return controller.ForObject(point).
		WhenDeleted(func(ctx context.Context, last *Site) (controller.Result, error) {
			return controller.Result{}, dns.Remove(ctx, last.Spec.Title)
		})
}

// DeletePreviews deletes what a selector chooses.
func DeletePreviews(ctx context.Context, sites *entity.Client[*Site]) (deleted int, err error) {
	previews := entity.ListOptions{Namespace: "shop", Labels: labels.SelectorFromSet(labels.Set{"preview": "true"})}
	n, err := sites.DeleteAllOf(ctx, previews, entity.CountOnly())
	if err != nil {
		return 0, err
	}
	return sites.DeleteAllOf(ctx, previews, entity.IfCount(n)) // refused if they are another number by now
}

// NewPages makes a client whose cache has metadata alone.
func NewPages(ctx context.Context, js jetstream.JetStream) (*entity.Client[*Page], error) {
	return entity.NewClient[*Page](ctx, js,
		entity.Config{Kind: "Page", Bucket: "pages", Namespaced: true, OnlyMetadata: true})
}

// NewDeployments makes a handle.
func NewDeployments(
	client dynamic.Interface, factory informers.SharedInformerFactory,
) (*kube.Handle[*appsv1.Deployment], error) {
	return kube.New[*appsv1.Deployment](client,
		appsv1.SchemeGroupVersion.WithResource("deployments"), factory.Apps().V1().Deployments().Informer())
}

// Deploy writes a Deployment.
func Deploy(ctx context.Context, deployments *kube.Handle[*appsv1.Deployment], site *Site) error {
	_, err := deployments.Apply(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name},
		Spec:       deploymentSpec(site), // what this controller wants, and nothing else
	})
	return err
}

func deploymentSpec(site *Site) appsv1.DeploymentSpec {
	labels := map[string]string{"site": site.Name}
	return appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		},
	}
}
