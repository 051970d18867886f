package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

// controllerConfig says what controller a child runs.
type controllerConfig struct {
	Runtime string // "nagi", "controller-runtime" or "bare"
	NATS    string
	Kube    *kubeAddress
	// Place is the bucket or the namespace of the primaries.
	Place string
	// Secondaries is how many each primary has. With none, reconciling is reading the primary, and nothing is written.
	Secondaries int
	// KubeSecondary keeps the secondaries in Kubernetes although the primaries are in NATS.
	KubeSecondary bool
	// WithoutTeardown writes only the records of status.
	WithoutTeardown bool
	// Boundaries keeps primaries and secondaries in a namespace, and proves what is owned.
	Boundaries    bool
	ClientGoQueue bool
	Workers       int
	// Shards is into how many slots the keys are divided that Members replicas share; 0: one works. Member is the name of
	// this one.
	Shards, Members int
	Member          string
	// Takes is how long a reconcile waits, as for an API.
	Takes time.Duration
	// Watched is the name of one of watches; "" is not observed.
	Watched string
}

// underTest is a controller that runs.
type underTest interface {
	// awaitReady returns when caches are complete and workers work.
	awaitReady(ctx context.Context) error
	// writes returns how many requests that write the controller sent, 0 if it cannot tell.
	writes() int64
	stop() error
	// shards is how replicas share the keys; nil if they do not.
	shards() *controller.ShardStats
}

// roleController runs a controller from the moment that it has its configuration.
func roleController(ctx context.Context, config json.RawMessage) (map[string]command, func() error, error) {
	var cfg controllerConfig
	if err := json.Unmarshal(config, &cfg); err != nil {
		return nil, nil, err
	}
	start := map[string]func(context.Context, controllerConfig, *observer) (underTest, error){
		"nagi": startNagi, "controller-runtime": startOther, "bare": startBare,
	}[cfg.Runtime]
	if start == nil {
		return nil, nil, fmt.Errorf("there is no runtime %q", cfg.Runtime)
	}
	seen := newObserver()
	c, err := start(ctx, cfg, seen)
	if err != nil {
		return nil, nil, err
	}
	elapsed := func(err error) (any, error) { return time.Since(seen.began).Seconds(), err }
	return map[string]command{
		"ready": func(ctx context.Context, _ json.RawMessage) (any, error) { return elapsed(c.awaitReady(ctx)) },
		"await": func(ctx context.Context, with json.RawMessage) (any, error) {
			var n int
			if err := json.Unmarshal(with, &n); err != nil {
				return nil, err
			}
			return elapsed(seen.await(ctx, n))
		},
		"calm": func(ctx context.Context, _ json.RawMessage) (any, error) {
			return nil, seen.awaitCalm(ctx, time.Second)
		},
		"samples":    func(context.Context, json.RawMessage) (any, error) { return seen.take(), nil },
		"reconciles": func(context.Context, json.RawMessage) (any, error) { return seen.reconciles.Load(), nil },
		"shards":     func(context.Context, json.RawMessage) (any, error) { return c.shards(), nil },
		"writes":     func(context.Context, json.RawMessage) (any, error) { return c.writes(), nil },
	}, c.stop, nil
}

// startController starts a controller in its own process and waits until it works.
func startController(ctx context.Context, cfg controllerConfig) (*process, error) {
	p, err := startProcess(ctx, "controller", cfg)
	if err != nil {
		return nil, err
	}
	if err := p.call(ctx, "ready", nil, nil); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}
