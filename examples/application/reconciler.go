package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nats-io/nats.go/jetstream"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// reconciler makes a ConfigMap, a Deployment and a Service for each Application.
type reconciler struct {
	applications *entity.Client[*Application]
	configMaps   *kube.Handle[*corev1.ConfigMap]
	deployments  *kube.Handle[*appsv1.Deployment]
	services     *kube.Handle[*corev1.Service]
	factory      informers.SharedInformerFactory
}

func newReconciler(ctx context.Context, js jetstream.JetStream, config *rest.Config) (*reconciler, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	r := &reconciler{factory: factory}
	var errs [4]error
	r.applications, errs[0] = entity.NewClient[*Application](ctx, js, entity.Config{
		Kind: "Application", Bucket: "applications", Namespaced: true,
	})
	r.configMaps, errs[1] = kube.New[*corev1.ConfigMap](client,
		corev1.SchemeGroupVersion.WithResource("configmaps"), factory.Core().V1().ConfigMaps().Informer())
	r.deployments, errs[2] = kube.New[*appsv1.Deployment](client,
		appsv1.SchemeGroupVersion.WithResource("deployments"), factory.Apps().V1().Deployments().Informer())
	r.services, errs[3] = kube.New[*corev1.Service](client,
		corev1.SchemeGroupVersion.WithResource("services"), factory.Core().V1().Services().Informer())
	return r, errors.Join(errs[:]...)
}

// Reconcile applies the desired state, and copies back the actual state. When an Application is deleted, the runtime
// deletes what it owns. When somebody changes or deletes an owned object, the runtime calls Reconcile, which restores
// it.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	app, err := r.applications.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil // gone: the runtime deletes what it owned
	}
	if err != nil {
		return controller.Result{}, err
	}
	if _, err := r.configMaps.Apply(ctx, configMap(app)); err != nil {
		return controller.Result{}, err
	}
	if _, err := r.deployments.Apply(ctx, deployment(app)); err != nil {
		return controller.Result{}, err
	}
	if _, err := r.services.Apply(ctx, service(app)); err != nil {
		return controller.Result{}, err
	}
	running, err := r.deployments.Get(req.Key) // it is there: the cache shows what was written
	if err != nil {
		return controller.Result{}, err
	}
	app.Status = ApplicationStatus{
		ReadyReplicas: running.Status.ReadyReplicas,
		Address:       fmt.Sprintf("%s.%s.svc:%d", app.Name, app.Namespace, app.Spec.Port),
	}
	return controller.Result{}, r.applications.UpdateStatus(ctx, app) // no write if it is as before
}

func meta(app *Application) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace, Labels: selector(app)}
}

func selector(app *Application) map[string]string {
	return map[string]string{"app.kubernetes.io/name": app.Name}
}

func configMap(app *Application) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(app), Data: app.Spec.Settings}
}

func deployment(app *Application) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: meta(app),
		Spec: appsv1.DeploymentSpec{
			Replicas: &app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: selector(app)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector(app)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "main",
					Image: app.Spec.Image,
					Ports: []corev1.ContainerPort{{ContainerPort: app.Spec.Port, Protocol: corev1.ProtocolTCP}},
					EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: app.Name},
					}}},
				}}},
			},
		},
	}
}

func service(app *Application) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(app),
		Spec: corev1.ServiceSpec{
			Selector: selector(app),
			Ports: []corev1.ServicePort{{
				Name: "http", Protocol: corev1.ProtocolTCP,
				Port: app.Spec.Port, TargetPort: intstr.FromInt32(app.Spec.Port),
			}},
		},
	}
}
