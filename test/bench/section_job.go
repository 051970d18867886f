package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	jobOne   = "one primary at a time: from the write to its status, median"
	jobTail  = "the same, p99"
	jobMany  = "many at once: primaries per second, from the first write to the last status"
	jobOurs  = "Nagi, secondary in NATS"
	jobSafe  = "Nagi, secondary in NATS, in a namespace and with proofs of ownership"
	jobLight = "Nagi, secondary in NATS, without teardown"
	jobKube  = "Nagi, secondary in Kubernetes"
	jobTheir = "controller-runtime"
	jobQueue = "controller-runtime, client-go's queue"
	jobBare  = "no controller: a bare program writes the same"
	jobLess  = "no controller: a bare program writes the same, without teardown"
)

// runJob measures the whole job: a primary is created, its controller creates a secondary and writes status.
func runJob(ctx context.Context, b *bench) (c *chapter, err error) {
	alone, many, turns := b.size(300), b.size(3000), b.turns(3)
	c = &chapter{title: "1. The whole job", setup: fmt.Sprintf(
		"A primary of 450 B is created; its controller, with 16 workers, "+
			"creates one secondary of the same size and writes status; the\n"+
			"user sees that by a watch. First %d one after the other, then %d from %d writers at once. "+
			"Each turn is a controller\n"+
			"process of its own, in an empty bucket or namespace. "+
			"Nagi writes a record before, which makes a later delete safe, and status and outcome in one after;\n"+
			"controller-runtime has no finalizer here, and Nagi without teardown promises and writes as little. "+
			"The bare program shows what\n"+
			"NATS and nats.go take of it: it sends the same messages, as large, "+
			"by compare-and-set and one after the other as Nagi must,\n"+
			"and decodes, caches and checks nothing. "+
			"A controller that waits as it does can hardly be faster.",
		alone, many, writers)}
	nats, err := startNATS(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nats.stop()) }()
	kube, err := b.startKube(ctx)
	if err != nil {
		return c, err
	}
	defer kube.stop()

	one, tail := c.figure(jobOne, "s"), c.figure(jobTail, "s")
	rate := c.figure(jobMany, "/s").higherIsBetter()
	for turn := range turns {
		for i, name := range []string{jobOurs, jobSafe, jobTheir, jobLight, jobKube, jobQueue, jobBare, jobLess} {
			cfg := controllerConfig{
				Place: fmt.Sprint("job-", turn, "-", i), NATS: nats.url, Kube: kube.address,
				Secondaries: 1, Workers: 16,
			}
			cfg.Runtime, cfg.KubeSecondary, cfg.ClientGoQueue = "nagi", name == jobKube, name == jobQueue
			cfg.WithoutTeardown = name == jobLight || name == jobLess
			cfg.Boundaries = name == jobSafe
			switch name {
			case jobTheir, jobQueue:
				cfg.Runtime = "controller-runtime"
			case jobBare, jobLess:
				cfg.Runtime = "bare"
			}
			u, err := place(ctx, cfg, nats, kube)
			if err != nil {
				return c, err
			}
			latencies, seconds, err := job(ctx, cfg, u, alone, many)
			if err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
			one.add(name, median(latencies))
			tail.add(name, quantile(latencies, 0.99))
			rate.add(name, float64(many)/seconds)
			b.say("job: %s: %s, %.0f/s", name, format(median(latencies), "s"), float64(many)/seconds)
		}
	}
	for _, ours := range []string{jobOurs, jobLight} {
		faster := rate.median(ours) / rate.median(jobTheir)
		sooner := one.median(jobTheir) / one.median(ours)
		c.reach(faster >= 20, ours+": at least 20 times the throughput of controller-runtime", "%s", times(faster))
		c.reach(sooner >= 10, ours+": at most a tenth of its median latency", "1/%s of it", number(sooner))
	}
	c.note("With namespaces and proofs of ownership: %s the throughput of Nagi without, and %s its median latency.",
		times(rate.median(jobSafe)/rate.median(jobOurs)), times(one.median(jobSafe)/one.median(jobOurs)))
	for _, bare := range []string{jobBare, jobLess} {
		c.note("%s: %s the throughput of controller-runtime, and 1/%s of its median latency.", bare,
			times(rate.median(bare)/rate.median(jobTheir)), number(one.median(jobTheir)/one.median(bare)))
	}
	return c, nil
}

// place makes the namespaces that a controller needs, and its user. The clients make the buckets.
func place(ctx context.Context, cfg controllerConfig, nats *natsServer, kube *kubeServer) (user, error) {
	if cfg.KubeSecondary || cfg.Runtime == "controller-runtime" {
		if err := kube.namespace(ctx, cfg.Place); err != nil {
			return nil, err
		}
	}
	if cfg.Runtime != "controller-runtime" {
		u := &natsUser{js: nats.js, bucket: cfg.Place}
		if cfg.Boundaries {
			u.namespace = "team."
		}
		return u, nil
	}
	return &kubeUser{client: kube.client, namespace: cfg.Place}, nil
}

// job returns how long each of the first primaries took, and all others together, in seconds.
func job(
	ctx context.Context, cfg controllerConfig, u user, alone, many int,
) (latencies []float64, seconds float64, err error) {
	controller, err := startController(ctx, cfg)
	if err != nil {
		return nil, 0, err
	}
	defer stopAll(&err, controller)
	w := &waiter{left: map[string]bool{}}
	stop, err := u.watch(ctx, w.ready)
	if err != nil {
		return nil, 0, err
	}
	defer stop()
	for i := range alone + 1 {
		name := fmt.Sprint("alone-", i)
		all := w.expect(name)
		began := time.Now()
		if err := u.write(ctx, name, i); err != nil {
			return nil, 0, err
		}
		if err := patiently(ctx, all); err != nil {
			return nil, 0, fmt.Errorf("status of %s: %w", name, err)
		}
		if i > 0 { // the first one may wait for the start
			latencies = append(latencies, time.Since(began).Seconds())
		}
	}
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprint("many-", i)
	}
	all := w.expect(names...)
	began := time.Now()
	if err := writeAll(ctx, u, "many", many); err != nil {
		return nil, 0, err
	}
	if err := patiently(ctx, all); err != nil {
		return nil, 0, fmt.Errorf("status of %d primaries, of which %v are missing: %w\n%s",
			many, w.missing(), err, controller.logged())
	}
	return latencies, time.Since(began).Seconds(), nil
}

// patience is the limit for a wait that usually takes seconds.
const patience = 2 * time.Minute

func patiently(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waiter waits until all of some primaries are ready.
type waiter struct {
	mu   sync.Mutex
	left map[string]bool
	all  chan struct{}
}

func (w *waiter) expect(names ...string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.left[name] = true
	}
	w.all = make(chan struct{})
	return w.all
}

// missing returns at most ten of the primaries that are not ready.
func (w *waiter) missing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.left))
	return names[:min(len(names), 10)]
}

func (w *waiter) ready(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left[name] {
		return
	}
	delete(w.left, name)
	if len(w.left) == 0 {
		close(w.all)
	}
}
