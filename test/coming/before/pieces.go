package before

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var errNoTitle = errors.New("spec.title: a site needs a title")

func (r *SiteReconciler) validate(site *Site) error {
	if site.Spec.Title == "" {
		r.Events.Eventf(site, nil, corev1.EventTypeWarning, "Untitled", "Validate", "a site needs a title")
		return reconcile.TerminalError(errNoTitle)
	}
	return nil
}

// Validated is Reconcile with the check before it.
func (r *SiteReconciler) Validated(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.validate(site); err != nil {
		return ctrl.Result{}, err
	}
	return r.Reconcile(ctx, req)
}

// DeletePreviews deletes what a selector chooses.
func DeletePreviews(ctx context.Context, c client.Client) error {
	return c.DeleteAllOf(ctx, &Site{}, client.InNamespace("shop"), client.MatchingLabels{"preview": "true"})
}

// OwnsMetadata is for a cache of metadata alone.
func OwnsMetadata(mgr ctrl.Manager, r reconcile.Reconciler) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		Complete(r)
}

// Deploy writes a Deployment.
func (r *SiteReconciler) Deploy(ctx context.Context, site *Site) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Spec = deploymentSpec(site)
		return controllerutil.SetControllerReference(site, deployment, r.Scheme())
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

// StartAPIServer is the beginning of a test.
func StartAPIServer(t *testing.T) client.Client {
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"config/crd/bases"}}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
