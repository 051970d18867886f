package kube_test

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

type shopSpec struct {
	Greeting string `json:"greeting"`
}

type shop = entity.Object[shopSpec, struct{}]

// A shop in NATS has a ConfigMap in Kubernetes. What somebody changes of it by hand is put right, and it goes with
// its shop.
func ExampleHandle_Apply() {
	run := func(ctx context.Context, shops *entity.Client[*shop], clientset kubernetes.Interface,
		client dynamic.Interface) error {
		factory := informers.NewSharedInformerFactory(clientset, 0)
		settings, err := kube.New[*corev1.ConfigMap](client,
			corev1.SchemeGroupVersion.WithResource("configmaps"), factory.Core().V1().ConfigMaps().Informer())
		if err != nil {
			return err
		}
		reconcile := controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				shop, err := shops.Lister().Get(req.Key)
				if apierrors.IsNotFound(err) {
					return controller.Result{}, nil // it is gone, and the runtime deletes what it owned
				}
				if err != nil {
					return controller.Result{}, err
				}
				_, err = settings.Apply(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: shop.Name},
					Data:       map[string]string{"greeting": shop.Spec.Greeting},
				})
				var exists *controller.ResourceExistsError
				if errors.As(err, &exists) {
					return controller.Result{}, controller.TerminalError(err) // somebody else's: wait for another name
				}
				return controller.Result{}, err
			})
		c, err := controller.New("shops", shops, reconcile, settings.Owns())
		if err != nil {
			return err
		}
		informing, stopInforming := context.WithCancel(context.WithoutCancel(ctx))
		factory.StartWithContext(informing) // the informers are yours to run, until the controller has stopped
		defer factory.Shutdown()
		defer stopInforming()
		return c.Run(ctx)
	}
	_ = run
}
