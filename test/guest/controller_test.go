package guest

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/nagi-runtime/nagi/test/guest/api/v1"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// reconciler makes a ConfigMap for each Website, as is usual with controller-runtime.
type reconciler struct {
	client   client.Client
	websites client.Reader
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	site := &v1.Website{}
	if err := r.websites.Get(ctx, req.NamespacedName, site); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, object))
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.client, object, func() error {
		object.Data = map[string]string{"host": site.Spec.Host}
		return nil
	})
	return ctrl.Result{}, err
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func (w *world) manager(options ctrl.Options) ctrl.Manager {
	w.t.Helper()
	options.Scheme = newScheme(w.t)
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller = config.Controller{SkipNameValidation: ptr.To(true)} // names are unique in the whole process
	options.Cache = crcache.Options{DefaultNamespaces: map[string]crcache.Config{w.namespace: {}}}
	mgr, err := ctrl.NewManager(api.Config(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	return mgr
}

// start runs the manager and the given functions until the test ends.
func start(t *testing.T, mgr ctrl.Manager, beside ...func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, run := range beside {
			run(ctx)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
}

// reconciles plays a user's day and checks that the ConfigMaps follow.
func (w *world) reconciles() {
	w.t.Helper()
	want := map[string]string{"before": "a.example.com"}
	agree := func(what string) {
		w.t.Helper()
		natstest.Eventually(w.t, fmt.Sprintf("%s: the ConfigMaps are %v", what, want), func() bool {
			return maps.Equal(w.hosts(), want)
		})
	}
	agree("created before the controller started")

	w.put("blog", "blog.example.com")
	want["blog"] = "blog.example.com"
	agree("created")

	w.put("blog", "www.example.com")
	want["blog"] = "www.example.com"
	agree("updated")

	w.delete("before")
	delete(want, "before")
	agree("deleted")

	if err := w.nats.Restart(); err != nil {
		w.t.Fatal(err)
	}
	w.put("shop", "shop.example.com")
	w.delete("blog")
	delete(want, "blog")
	want["shop"] = "shop.example.com"
	agree("after a restart of NATS")
}

func TestAControllerBuiltWithTheirBuilderReconcilesABucketThroughSourceInformer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("before", "a.example.com")
	informer := w.informer()
	mgr := w.manager(ctrl.Options{})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("websites").
		WatchesRawSource(&source.Informer{Informer: informer, Handler: &handler.EnqueueRequestForObject{}}).
		Complete(&reconciler{client: mgr.GetClient(), websites: &cacheWith{informer: informer}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, mgr, informer.RunWithContext)
	w.reconciles()
}

func TestForReconcilesABucketWhenTheCacheHasOurInformer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("before", "a.example.com")
	mgr := w.manager(ctrl.Options{NewCache: func(cfg *rest.Config, opts crcache.Options) (crcache.Cache, error) {
		theirs, err := crcache.New(cfg, opts)
		return &cacheWith{Cache: theirs, informer: w.informer(), scheme: opts.Scheme}, err
	}})
	// Their client reads Websites from our informer: nothing in this controller knows that they are in NATS.
	err := ctrl.NewControllerManagedBy(mgr).For(&v1.Website{}).
		Complete(&reconciler{client: mgr.GetClient(), websites: mgr.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	start(t, mgr)
	w.reconciles()

	sites := &v1.WebsiteList{}
	if err := mgr.GetClient().List(t.Context(), sites, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(sites.Items) != 1 || sites.Items[0].Name != "shop" {
		t.Errorf("their client lists %+v", sites.Items)
	}
}
