package main

import (
	"context"
	"fmt"
	"time"

	nagi "github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
)

// namespace is where the Deployments are.
const namespace = metav1.NamespaceDefault

// none fills the unused slots.
type none = *entity.None

type runtime = nagi.ControllerRuntime[*Foo, none, none, none, none, none, none, none, none]

// fooController is the sample controller. It embeds the runtime and writes SyncHandler; the default HandleSecondary
// finds the Foo that owns a Deployment, which is handleObject of the original.
type fooController struct {
	*runtime
	foos        *entity.Client[*Foo]
	clientset   kubernetes.Interface
	deployments appslisters.DeploymentLister
	factory     informers.SharedInformerFactory
}

func newController(
	ctx context.Context, js jetstream.JetStream, clientset kubernetes.Interface,
) (*fooController, error) {
	foos, err := entity.NewClient[*Foo](ctx, js, entity.Config{Kind: "Foo", Bucket: "foos"})
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	deployments := factory.Apps().V1().Deployments()
	c := &fooController{foos: foos, clientset: clientset, deployments: deployments.Lister(), factory: factory}
	c.runtime = nagi.NewControllerRuntime[*Foo, none, none, none, none, none, none, none, none](
		"sample-controller", "Foo",
		clientset, // for events about Kubernetes objects; those about Foos go to NATS
		foos,
		[]cache.SharedIndexInformer{deployments.Informer()}, nil, // secondaries and tertiaries in Kubernetes
		nil, nil, nil, nil, // secondaries in NATS
		nil, nil, nil, nil, // tertiaries in NATS
		nil, // external clients
		time.Minute,
	)
	c.SetCustomController(c)
	return c, nil
}

// start starts the informers of Kubernetes, which the user has to run and not the runtime.
func (c *fooController) start(ctx context.Context) { c.factory.StartWithContext(ctx) }

// close waits for the informers, whose context has ended.
func (c *fooController) close() {
	c.factory.Shutdown()
	c.foos.Close()
}

// SyncHandler compares the actual state with the desired, and converges the two. It then updates the status of the Foo.
// It writes with the context of this sync, which ends when the controller has to stop.
func (c *fooController) SyncHandler(key string) error {
	ctx, cancel := context.WithTimeout(c.Context(key), 10*time.Second)
	defer cancel()

	foo, err := c.foos.Lister().Get(key)
	if apierrors.IsNotFound(err) {
		// The original leaves this to Kubernetes' garbage collector, which knows nothing of owners in NATS.
		return c.cleanUp(ctx, key)
	}
	if err != nil {
		return err
	}
	name := foo.Spec.DeploymentName
	if name == "" {
		// Trying again would not help: the next change of the Foo will come as an event.
		c.Event(foo, corev1.EventTypeWarning, "NoDeploymentName", "spec.deploymentName must be set")
		return nil
	}
	deployment, err := c.deployments.Deployments(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		deployment, err = c.clientset.AppsV1().Deployments(namespace).Create(
			ctx, c.newDeployment(foo), metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if !c.controls(deployment, key) {
		message := fmt.Sprintf(nagi.MessageErrResourceExists, deployment.Name)
		c.Event(foo, corev1.EventTypeWarning, nagi.ReasonErrResourceExists, message)
		return fmt.Errorf("%s", message)
	}
	if foo.Spec.Replicas != nil && *foo.Spec.Replicas != *deployment.Spec.Replicas {
		desired := deployment.DeepCopy() // the cache shares its objects
		desired.Spec.Replicas = foo.Spec.Replicas
		deployment, err = c.clientset.AppsV1().Deployments(namespace).Update(ctx, desired, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	if err := c.updateStatus(ctx, foo, deployment); err != nil {
		return err
	}
	c.Event(foo, corev1.EventTypeNormal, nagi.ReasonResourceSynced, "Foo synced successfully")
	return nil
}

// controls reports whether the Deployment is this Foo's.
func (c *fooController) controls(deployment *appsv1.Deployment, key string) bool {
	_, owner, err := c.DecomposeKubeSecondaryResource(deployment)
	return err == nil && owner == key
}

func (c *fooController) updateStatus(ctx context.Context, foo *Foo, deployment *appsv1.Deployment) error {
	if foo.Status.AvailableReplicas == deployment.Status.AvailableReplicas {
		return nil
	}
	foo.Status.AvailableReplicas = deployment.Status.AvailableReplicas // the lister gave us a copy
	return c.foos.UpdateStatus(ctx, foo)
}

// cleanUp deletes the Deployments of a Foo that is gone.
func (c *fooController) cleanUp(ctx context.Context, key string) error {
	deployments, err := c.deployments.Deployments(namespace).List(labels.Set{
		nagi.OwnerkindLabel: "Foo", nagi.OwnerKeyLabel: entity.OwnerLabelValue(key),
	}.AsSelector())
	if err != nil {
		return err
	}
	for _, deployment := range deployments {
		if !c.controls(deployment, key) {
			continue
		}
		err := c.clientset.AppsV1().Deployments(namespace).Delete(ctx, deployment.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &deployment.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// newDeployment returns the Deployment of a Foo, with the labels and annotations by which its events find the Foo.
func (c *fooController) newDeployment(foo *Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: foo.Spec.DeploymentName, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
	c.SetOwner(deployment, foo.Name)
	return deployment
}
