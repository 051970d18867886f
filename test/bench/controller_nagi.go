package main

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// resyncInterval is controller-runtime's default. Our default, 10 minutes, would be work that the other does not do.
const resyncInterval = 10 * time.Hour

// nagiController is a controller as Nagi's README writes it.
type nagiController struct {
	cfg        controllerConfig
	seen       *observer
	sites      *entity.Client[*v1.Website]
	configMaps *entity.Client[*corev1.ConfigMap] // nil with secondaries in Kubernetes, or none
	kube       *kube.Handle[*corev1.ConfigMap]
	controller *controller.Controller[*v1.Website]
	cancel     context.CancelFunc
	ended      chan error
}

func startNagi(ctx context.Context, cfg controllerConfig, seen *observer) (underTest, error) {
	js, err := connect(cfg.NATS)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &nagiController{cfg: cfg, seen: seen, cancel: cancel, ended: make(chan error, 1)}
	w, err := watchedAs(cfg.Watched)
	if err != nil {
		return nil, err
	}
	primaries := entity.Config{Kind: "Website", Bucket: cfg.Place, Namespaced: cfg.Boundaries}
	secondaries := entity.Config{Kind: "ConfigMap", Bucket: cfg.Place + "-secondaries", Namespaced: cfg.Boundaries}
	opts := w.apply([]controller.Option{
		controller.WithWorkers(cfg.Workers), controller.WithResyncInterval(resyncInterval),
	}, &primaries, &secondaries)
	if c.sites, err = entity.NewClient[*v1.Website](ctx, js, primaries); err != nil {
		return nil, err
	}
	if cfg.Shards > 0 {
		opts = append(opts, controller.WithShards(cfg.Shards), controller.WithMember(cfg.Member, 1))
	}
	if cfg.WithoutTeardown {
		opts = append(opts, controller.WithoutTeardown())
	}
	if cfg.Boundaries {
		opts = append(opts, controller.WithOwnerProof([]byte("a secret of the benchmark")))
	}
	switch {
	case cfg.Secondaries == 0:
	case cfg.KubeSecondary:
		if err := c.useKube(ctx); err != nil {
			return nil, err
		}
		opts = append(opts, c.kube.Owns())
	default:
		if c.configMaps, err = entity.NewClient[*corev1.ConfigMap](ctx, js, secondaries); err != nil {
			return nil, err
		}
		opts = append(opts, controller.Owns(c.configMaps))
	}
	if c.controller, err = controller.New("websites", c.sites, c, opts...); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.controller.Run(ctx) }()
	return c, nil
}

// useKube makes a handle for ConfigMaps. It asks for core types in protobuf, as Kubernetes' own components do.
func (c *nagiController) useKube(ctx context.Context) error {
	protobuf := rest.CopyConfig(c.cfg.Kube.config())
	protobuf.ContentType, protobuf.AcceptContentTypes =
		"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	clientset, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.cfg.Kube.config())
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(c.cfg.Place))
	c.kube, err = kube.New[*corev1.ConfigMap](client,
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		factory.Core().V1().ConfigMaps().Informer())
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

// Reconcile makes the secondaries match the primary, and writes its status.
func (c *nagiController) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	site, err := c.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	time.Sleep(c.cfg.Takes)
	c.seen.reconciled(req.Key, site.Spec.Sent)
	if c.cfg.Secondaries == 0 {
		return controller.Result{}, nil
	}
	for i := range c.cfg.Secondaries {
		if err := c.secondary(ctx, site, i); err != nil {
			return controller.Result{}, err
		}
	}
	site.Status = statusOf(site)
	return controller.Result{}, controller.SetStatus(ctx, site)
}

func (c *nagiController) secondary(ctx context.Context, site *v1.Website, i int) (err error) {
	if c.kube != nil {
		configMap := newConfigMap(secondaryName(site.Name, i), site)
		configMap.Namespace = c.cfg.Place
		_, err = c.kube.Apply(ctx, configMap)
		return err
	}
	configMap := &corev1.ConfigMap{}
	configMap.Namespace, configMap.Name = site.Namespace, secondaryName(site.Name, i)
	_, err = controller.CreateOrUpdate(ctx, c.configMaps, configMap, func(configMap *corev1.ConfigMap) error {
		fillConfigMap(configMap, site)
		return nil
	})
	return err
}

func (c *nagiController) awaitReady(ctx context.Context) error {
	if c.cfg.Shards == 0 {
		return awaitLeading(ctx, c.controller, c.ended)
	}
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		s := c.shards()
		return s.Open > 0 && s.Open == s.Held && s.Moving+s.Unowned+s.Draining == 0 && len(s.Members) >= c.cfg.Members, nil
	})
}

func (c *nagiController) shards() *controller.ShardStats { return c.controller.Stats().Shards }

// awaitLeading waits until a Nagi controller works: its caches are complete, and it holds the lease.
func awaitLeading(ctx context.Context, c interface{ Stats() controller.Stats }, ended chan error) error {
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		select {
		case err := <-ended:
			ended <- err
			return false, errors.Join(errors.New("the controller ended"), err)
		default:
			return c.Stats().Leading, nil
		}
	})
}

// writes returns 0: the parent counts the writes from the streams.
func (c *nagiController) writes() int64 { return 0 }

func (c *nagiController) stop() error {
	c.cancel()
	err := <-c.ended
	c.sites.Close()
	if c.configMaps != nil {
		c.configMaps.Close()
	}
	return err
}
