package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// otherController is a controller for controller-runtime, as kubebuilder's book writes it: cached reads,
// CreateOrUpdate with an owner reference, a predicate that drops the events of its own status, no leader election. It
// patches the status instead of updating it: its cache may not have its own last write yet, an update would then
// conflict, and it retries only ten failures a second.
type otherController struct {
	cfg     controllerConfig
	seen    *observer
	client  client.Client
	manager ctrl.Manager
	written atomic.Int64
	cancel  context.CancelFunc
	ended   chan error
}

func startOther(ctx context.Context, cfg controllerConfig, seen *observer) (underTest, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &otherController{cfg: cfg, seen: seen, cancel: cancel, ended: make(chan error, 1)}
	address := cfg.Kube.config()
	address.Wrap(c.countWrites)
	var err error
	c.manager, err = ctrl.NewManager(address, ctrl.Options{
		Scheme:     newScheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{cfg.Place: {}}},
		Controller: config.Controller{UsePriorityQueue: ptr.To(!cfg.ClientGoQueue), CacheSyncTimeout: 10 * time.Minute},
	})
	if err != nil {
		return nil, err
	}
	c.client = c.manager.GetClient()
	builder := ctrl.NewControllerManagedBy(c.manager).
		For(&v1.Website{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: cfg.Workers})
	if cfg.Secondaries > 0 {
		builder = builder.Owns(&corev1.ConfigMap{})
	}
	if err := builder.Complete(c); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.manager.Start(ctx) }()
	return c, nil
}

// Reconcile makes the secondaries match the primary, and writes its status.
func (c *otherController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &v1.Website{}
	if err := c.client.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	c.seen.reconciled(req.Name, site.Spec.Sent)
	if c.cfg.Secondaries == 0 {
		return ctrl.Result{}, nil
	}
	for i := range c.cfg.Secondaries {
		configMap := &corev1.ConfigMap{}
		configMap.Namespace, configMap.Name = site.Namespace, secondaryName(site.Name, i)
		if _, err := controllerutil.CreateOrUpdate(ctx, c.client, configMap, func() error {
			return ownedConfigMap(configMap, site, c.client.Scheme())
		}); err != nil {
			return ctrl.Result{}, err
		}
	}
	if status := statusOf(site); site.Status != status {
		before := site.DeepCopy()
		site.Status = status
		return ctrl.Result{}, c.client.Status().Patch(ctx, site, client.MergeFrom(before))
	}
	return ctrl.Result{}, nil
}

func ownedConfigMap(configMap *corev1.ConfigMap, site *v1.Website, scheme *runtime.Scheme) error {
	fillConfigMap(configMap, site)
	return controllerutil.SetControllerReference(site, configMap, scheme)
}

// awaitReady returns when the caches are complete; the workers begin at that moment.
func (c *otherController) awaitReady(ctx context.Context) error {
	select {
	case <-c.manager.Elected(): // at once, without leader election
	case err := <-c.ended:
		c.ended <- err
		return errors.Join(errors.New("the manager ended"), err)
	case <-ctx.Done():
		return ctx.Err()
	}
	watched := []client.Object{&v1.Website{}}
	if c.cfg.Secondaries > 0 {
		watched = append(watched, &corev1.ConfigMap{})
	}
	for _, kind := range watched {
		if _, err := c.manager.GetCache().GetInformer(ctx, kind); err != nil { // waits for it
			return err
		}
	}
	return nil
}

func (c *otherController) writes() int64 { return c.written.Load() }

func (c *otherController) stop() error {
	c.cancel()
	return <-c.ended
}

// countWrites counts the requests that change something.
func (c *otherController) countWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			c.written.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
