package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// engineConfig says what engine a child runs.
type engineConfig struct {
	Subject string // one of those below
	NATS    string
	Bucket  string
	Keys    int
	Workers int
}

const (
	engineOurs    = "Nagi"
	engineLight   = "Nagi, without teardown (no records)"
	enginePlain   = "controller-runtime, client-go's queue"
	engineDefault = "controller-runtime, its priority queue (default)"
)

var engines = []string{engineOurs, engineDefault, enginePlain, engineLight}

// runEngine measures how fast keys go through an engine whose reconciler does nothing.
func runEngine(ctx context.Context, b *bench) (c *chapter, err error) {
	keys, turns := b.size(500_000), b.turns(5)
	c = &chapter{title: "2. The engine alone", setup: fmt.Sprintf(
		"%s keys are enqueued one by one while the workers take them; the reconciler does nothing. "+
			"Nagi, unlike the others, looks up\n"+
			"each key's document and record, all of which are there "+
			"(a warm engine; the documents in NATS, the server idle). A garbage\n"+
			"collection precedes each turn.", number(float64(keys)))}
	nats, err := startNATS(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nats.stop()) }()
	for _, workers := range []int{1, 8} {
		f := c.figure(fmt.Sprintf("keys per second, %s", plural(workers, "worker")), "/s").higherIsBetter()
		if err := engineTurns(ctx, b, nats, f, engineConfig{
			NATS: nats.url, Bucket: "websites", Keys: keys, Workers: workers,
		}, turns); err != nil {
			return c, err
		}
		theirDefault := f.median(engineOurs) / f.median(engineDefault)
		theirBest := f.median(engineOurs) / max(f.median(engineDefault), f.median(enginePlain))
		c.reach(theirDefault >= 2.5,
			fmt.Sprintf("at least 2.5 times its default, %s", plural(workers, "worker")),
			"%s", times(theirDefault))
		c.reach(theirBest > 1, fmt.Sprintf("ahead of its best, %s", plural(workers, "worker")), "%s", times(theirBest))
	}
	return c, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}

func engineTurns(ctx context.Context, b *bench, nats *natsServer, f *figure, cfg engineConfig, turns int) (err error) {
	children := map[string]*process{}
	defer func() {
		for _, p := range children {
			err = errors.Join(err, p.stop())
		}
	}()
	for _, name := range engines {
		cfg.Subject = name
		if children[name], err = startProcess(ctx, "engine", cfg); err != nil {
			delete(children, name)
			return err
		}
		if name == engineOurs { // it made the bucket
			u := &natsUser{js: nats.js, bucket: cfg.Bucket}
			if err := u.fill(ctx, "site", cfg.Keys); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := children[name].call(ctx, "ready", nil, nil); err != nil {
			return err
		}
		b.say("engine: %s is warm after %.1f s", name, time.Since(began).Seconds())
	}
	for range turns {
		for _, name := range engines {
			var seconds float64
			if err := children[name].call(ctx, "pass", nil, &seconds); err != nil {
				return err
			}
			f.add(name, float64(cfg.Keys)/seconds)
			b.say("engine: %d workers, %s: %.0f/s", cfg.Workers, name, float64(cfg.Keys)/seconds)
		}
	}
	return nil
}

// roleEngine runs one engine. "ready" returns when each key was reconciled once; "pass" reconciles all keys once more.
func roleEngine(ctx context.Context, config json.RawMessage) (map[string]command, func() error, error) {
	var cfg engineConfig
	if err := json.Unmarshal(config, &cfg); err != nil {
		return nil, nil, err
	}
	pass := newPass(cfg.Keys)
	start := engineOther
	if cfg.Subject == engineOurs || cfg.Subject == engineLight {
		start = engineNagi
	}
	enqueue, ready, stop, err := start(ctx, cfg, pass)
	if err != nil {
		return nil, nil, err
	}
	return map[string]command{
		"ready": func(ctx context.Context, _ json.RawMessage) (any, error) { return nil, ready(ctx) },
		"pass": func(ctx context.Context, _ json.RawMessage) (any, error) {
			pass.begin()
			runtime.GC()
			began := time.Now()
			for i := range cfg.Keys {
				enqueue(i)
			}
			err := pass.await(ctx)
			return time.Since(began).Seconds(), err
		},
	}, stop, nil
}

// pass counts the reconciles of one pass over all keys.
type pass struct {
	keys int64
	done atomic.Int64
	all  chan struct{}
}

func newPass(keys int) *pass { return &pass{keys: int64(keys), all: make(chan struct{}, 1)} }

func (p *pass) begin() { p.done.Store(0) }

func (p *pass) reconciled() {
	if p.done.Add(1) == p.keys {
		p.all <- struct{}{}
	}
}

func (p *pass) await(ctx context.Context) error {
	select {
	case <-p.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func engineNagi(
	ctx context.Context, cfg engineConfig, p *pass,
) (enqueue func(int), ready func(context.Context) error, stop func() error, err error) {
	js, err := connect(cfg.NATS)
	if err != nil {
		return nil, nil, nil, err
	}
	clientConfig := entity.Config{Kind: "Website", Bucket: cfg.Bucket}
	opts := []controller.Option{
		controller.WithWorkers(cfg.Workers), controller.WithResyncInterval(0),
		controller.WithCacheSyncTimeout(time.Hour),
	}
	if cfg.Subject == engineLight {
		clientConfig.StatusBucket = entity.NoStatusBucket
		opts = append(opts, controller.WithoutTeardown())
	}
	sites, err := entity.NewClient[*v1.Website](ctx, js, clientConfig)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := controller.New("websites", sites, controller.ReconcilerFunc(func(
		context.Context, controller.Request,
	) (controller.Result, error) {
		p.reconciled()
		return controller.Result{}, nil
	}), opts...)
	if err != nil {
		return nil, nil, nil, err
	}
	names := make([]string, cfg.Keys)
	for i := range names {
		names[i] = fmt.Sprint("site-", i)
	}
	life, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	ready = func(ctx context.Context) error {
		go func() { ended <- c.Run(life) }() // the documents are there
		if err := p.await(ctx); err != nil {
			return err
		}
		for s := c.Stats(); s.Running > 0 || s.Ready != [3]int{}; s = c.Stats() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second) // the last records are written after the last reconcile
		return nil
	}
	return func(i int) { c.Enqueue(names[i], controller.OperationManual) }, ready, func() error {
		cancel()
		err := <-ended
		sites.Close()
		return err
	}, nil
}

// engineOther runs controller-runtime's controller without a manager. Our source hands out its queue.
func engineOther(
	ctx context.Context, cfg engineConfig, p *pass,
) (enqueue func(int), ready func(context.Context) error, stop func() error, err error) {
	c, err := crcontroller.NewUnmanaged("websites", crcontroller.Options{
		MaxConcurrentReconciles: cfg.Workers,
		UsePriorityQueue:        ptr.To(cfg.Subject == engineDefault),
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			p.reconciled()
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return nil, nil, nil, err
	}
	queues := make(chan workqueue.TypedRateLimitingInterface[reconcile.Request], 1)
	err = c.Watch(source.Func(func(
		_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
	) error {
		queues <- queue
		return nil
	}))
	if err != nil {
		return nil, nil, nil, err
	}
	requests := make([]reconcile.Request, cfg.Keys)
	for i := range requests {
		requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint("site-", i)}}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	select {
	case queue = <-queues:
	case err := <-ended:
		cancel()
		return nil, nil, nil, errors.Join(errors.New("the controller ended"), err)
	}
	enqueue = func(i int) { queue.Add(requests[i]) }
	ready = func(ctx context.Context) error {
		for i := range cfg.Keys {
			enqueue(i)
		}
		return p.await(ctx)
	}
	return enqueue, ready, func() error { cancel(); return <-ended }, nil
}
