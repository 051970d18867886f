package faults

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A shop has a text. Each of its secondaries repeats it.
type (
	shopSpec struct {
		Text string `json:"text"`
	}
	shopStatus struct {
		Text string `json:"text,omitempty"`
	}
	shop  = entity.Object[shopSpec, shopStatus]
	route = entity.Object[shopSpec, struct{}]
)

const (
	namespace         = metav1.NamespaceDefault
	textKey           = "text"
	natsReconnectWait = 50 * time.Millisecond
)

func newShops(ctx context.Context, js jetstream.JetStream) (*entity.Client[*shop], error) {
	// A purge leaves no trace and causes no event. Only the comparison of the cache notices it, so it is frequent.
	return entity.NewClient[*shop](ctx, js, entity.Config{
		Kind: "Shop", Bucket: "shops", CompareInterval: 2 * time.Second,
	})
}

func newRoutes(ctx context.Context, js jetstream.JetStream) (*entity.Client[*route], error) {
	return entity.NewClient[*route](ctx, js, entity.Config{Kind: "Route", Bucket: "routes"})
}

const (
	urlEnv       = "NAGI_TEST_URL"
	cloudEnv     = "NAGI_TEST_CLOUD"
	kubeHostEnv  = "NAGI_TEST_KUBE_HOST"
	kubeTokenEnv = "NAGI_TEST_KUBE_TOKEN"
	kubeCAEnv    = "NAGI_TEST_KUBE_CA"
)

func kubeConfigFromEnv() (*rest.Config, error) {
	ca, err := base64.StdEncoding.DecodeString(os.Getenv(kubeCAEnv))
	return &rest.Config{
		Host: os.Getenv(kubeHostEnv), BearerToken: os.Getenv(kubeTokenEnv), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}, err
}

// controllerChild is the process that is killed.
func controllerChild() error {
	nc, err := connect(os.Getenv(urlEnv))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	config, err := kubeConfigFromEnv()
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, err := newReconciler(ctx, js, config)
	if err != nil {
		return err
	}
	c, err := controller.New("shops", r.shops, r,
		controller.Owns(r.routes), r.configMaps.Owns(), r.secrets.Owns(),
		controller.OwnsExternal(external.Configure(r.machines, cloudConfig)),
		controller.WithWorkers(8),
		controller.WithBackoff(20*time.Millisecond, 5*time.Second),
		controller.WithLeaseTiming(controller.LeaseTiming{
			Duration: 2 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 300 * time.Millisecond,
		}))
	if err != nil {
		return err
	}
	r.factory.StartWithContext(ctx)
	return c.Run(ctx)
}

type reconciler struct {
	shops      *entity.Client[*shop]
	routes     *entity.Client[*route]
	configMaps *kube.Handle[*corev1.ConfigMap]
	secrets    *kube.Handle[*corev1.Secret]
	machines   api
	factory    informers.SharedInformerFactory
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
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	r := &reconciler{factory: factory, machines: api{os.Getenv(cloudEnv)}}
	var errs [4]error
	r.shops, errs[0] = newShops(ctx, js)
	r.routes, errs[1] = newRoutes(ctx, js)
	r.configMaps, errs[2] = kube.New[*corev1.ConfigMap](client,
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		factory.Core().V1().ConfigMaps().Informer())
	r.secrets, errs[3] = kube.New[*corev1.Secret](client,
		corev1.SchemeGroupVersion.WithResource("secrets"),
		factory.Core().V1().Secrets().Informer())
	return r, errors.Join(errs[:]...)
}

// Reconcile makes one secondary of each sort, each in another of the ways there are.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	s, err := r.shops.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		result, err := external.ReconcileAbsent(ctx, driver{r.machines})
		return controller.Result{RequeueAfter: result.RequeueAfter}, err
	}
	if err != nil {
		return controller.Result{}, err
	}
	meta := metav1.ObjectMeta{Name: s.Name, Namespace: namespace}
	if _, err := r.configMaps.Apply(ctx, &corev1.ConfigMap{
		ObjectMeta: meta, Data: map[string]string{textKey: s.Spec.Text},
	}); err != nil {
		return controller.Result{}, err
	}
	if _, err := r.secrets.CreateOrUpdate(ctx, &corev1.Secret{ObjectMeta: meta}, func(secret *corev1.Secret) error {
		secret.Data = map[string][]byte{textKey: []byte(s.Spec.Text)}
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	if _, err := controller.CreateOrUpdate(ctx, r.routes, &route{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
	}, func(route *route) error {
		route.Spec.Text = s.Spec.Text
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	result, err := external.Reconcile(ctx, driver{r.machines}, s.Spec.Text)
	if err != nil {
		return controller.Result{}, err
	}
	s.Status.Text = s.Spec.Text
	return controller.Result{RequeueAfter: result.RequeueAfter}, r.shops.UpdateStatus(ctx, s)
}
