package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
)

// What metrics and traces may cost, in percent.
const (
	dispatchMayCost = 5
	jobMayCost      = 10
)

// runObservation measures what metrics and traces cost: where nothing but the engine works, and in the whole job.
func runObservation(ctx context.Context, b *bench) (c *chapter, err error) {
	keys, turns := b.size(10_000), b.turns(11)
	alone, many, jobs := b.size(300), b.size(3000), b.turns(15)
	c = &chapter{title: "7. What observation costs", setup: fmt.Sprintf(
		"The engine alone: as in section 2, with 1 worker, %s keys. All controllers are in one process, share a "+
			"cache, and take turns, %d\ntimes in each turn; the cost is in processor time without the collection of "+
			"garbage, which comes between the passes: see what is allocated.\n"+
			"The whole job: as in section 1, %d primaries one after the other, then %d at once; "+
			"the user's writes carry a traceparent.\n"+
			"A cost is that of a turn beside the controller that is not observed, in the same turn; "+
			"the median of all turns counts.\n"+
			"Spans that are recorded are dropped when they end: what it costs to send them is the exporter's.",
		number(float64(keys)), blocks, alone, many)}
	nats, err := startNATS(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nats.stop()) }()
	if err := observedDispatch(ctx, b, c, nats, keys, turns); err != nil {
		return c, err
	}
	return c, observedJob(ctx, b, c, nats, alone, many, jobs)
}

// blocks is how often each controller has its turn in a turn of the engine, and passes how often it then reconciles all
// keys: what slows the machine down for a while slows them all.
const blocks, passes = 10, 5

// observedDispatch has one process with all controllers reconcile all keys, one controller after the other.
func observedDispatch(ctx context.Context, b *bench, c *chapter, nats *natsServer, keys, turns int) (err error) {
	child, err := startProcess(ctx, "watched", watchedConfig{NATS: nats.url, Bucket: "watched", Keys: keys})
	if err != nil {
		return err
	}
	defer stopAll(&err, child)
	u := &natsUser{js: nats.js, bucket: "watched"} // the child has made the bucket
	if err := u.fill(ctx, "site", keys); err != nil {
		return err
	}
	if err := child.call(ctx, "ready", nil, nil); err != nil {
		return err
	}
	rate := c.figure("the engine alone, 1 worker: keys per second", "/s").higherIsBetter()
	bytes := c.figure("the engine alone, 1 worker: allocated for each key", "B")
	each := c.figure("the engine alone, 1 worker: processor time for each key", "ns")
	cost := c.figure("what that costs", "%").forInformation()
	for turn := range turns {
		took, used, allocated := map[string]float64{}, map[string]float64{}, map[string]float64{}
		for block := range blocks {
			for _, w := range rotated(turn + block) {
				var all passed
				if err := child.call(ctx, "pass", w.name, &all); err != nil {
					return err
				}
				took[w.name] += all.Took
				used[w.name] += all.Used
				allocated[w.name] += all.Allocated
			}
		}
		n := float64(keys * passes * blocks)
		for _, w := range watches {
			rate.add(w.name, n/took[w.name])
			each.add(w.name, 1e9*used[w.name]/n)
			bytes.add(w.name, allocated[w.name]/n)
			cost.addCost(w.name, used)
		}
	}
	b.sayCosts("the engine alone", cost)
	c.reachCost(cost, watchedMetrics, dispatchMayCost, "the engine alone")
	c.reachCost(cost, watchedBoth, dispatchMayCost, "the engine alone")
	return nil
}

// observedJob has each controller do the whole job, in a process and a bucket of its own.
func observedJob(ctx context.Context, b *bench, c *chapter, nats *natsServer, alone, many, turns int) error {
	one := c.figure("the whole job, one at a time: from the write to its status, median", "s")
	slower := c.figure("what that costs", "%").forInformation()
	rate := c.figure("the whole job, many at once: primaries per second", "/s").higherIsBetter()
	fewer := c.figure("what that costs", "%").forInformation()
	for turn := range turns {
		latency, took := map[string]float64{}, map[string]float64{}
		for i, w := range rotated(turn) {
			cfg := controllerConfig{
				Runtime: "nagi", Place: fmt.Sprint("seen-", turn, "-", i), NATS: nats.url, Secondaries: 1, Workers: 16,
				Watched: w.name,
			}
			u := &natsUser{js: nats.js, bucket: cfg.Place, traced: true}
			latencies, seconds, err := job(ctx, cfg, u, alone, many)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			latency[w.name], took[w.name] = median(latencies), seconds
		}
		for _, w := range watches {
			one.add(w.name, latency[w.name])
			rate.add(w.name, float64(many)/took[w.name])
			slower.addCost(w.name, latency)
			fewer.addCost(w.name, took)
		}
	}
	b.sayCosts("the whole job, one at a time", slower)
	b.sayCosts("the whole job, many at once", fewer)
	c.reachCost(slower, watchedBoth, jobMayCost, "the whole job, one at a time")
	c.reachCost(fewer, watchedBoth, jobMayCost, "the whole job, many at once")
	return nil
}

// addCost adds how much more a turn took than that of the controller without observation, in percent.
func (f *figure) addCost(name string, took map[string]float64) {
	if name != watchedNot {
		f.add(name, 100*(took[name]/took[watchedNot]-1))
	}
}

// reachCost says whether observation costs no more than it may.
func (c *chapter) reachCost(f *figure, name string, most float64, what string) {
	observed := strings.TrimPrefix(name, "Nagi, ")
	c.reach(f.median(name) <= most, fmt.Sprintf("%s: %s: at most %v %%", what, observed, most),
		"%.1f %%", f.median(name))
}

func (b *bench) sayCosts(what string, f *figure) {
	for _, s := range f.subjects {
		b.say("observation: %s: %s: %+.1f %%", what, s.name, median(s.samples))
	}
}

// rotated are the watches in another order each turn, so that none is always the one after another.
func rotated(turn int) []watched {
	n := turn % len(watches)
	return slices.Concat(watches[n:], watches[:n])
}

// watchedConfig says what the controllers of a child reconcile.
type watchedConfig struct {
	NATS   string
	Bucket string
	Keys   int
}

// dispatcher is a controller whose reconciles do nothing.
type dispatcher struct {
	*pass
	enqueue func(key string, op controller.Operation)
}

// passed is what passes of the engine took, and what the process used meanwhile, in seconds and bytes.
type passed struct{ Took, Used, Allocated float64 }

// reconcile has all keys reconciled some times.
func (d dispatcher) reconcile(ctx context.Context, keys []string) (p passed, err error) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var heap [2]runtime.MemStats
	runtime.ReadMemStats(&heap[0])
	before, err := usageNow()
	if err != nil {
		return p, err
	}
	began := time.Now()
	for range passes {
		d.begin()
		for _, key := range keys {
			d.enqueue(key, controller.OperationManual)
		}
		if err := d.await(ctx); err != nil {
			return p, err
		}
	}
	p.Took = time.Since(began).Seconds()
	after, err := usageNow()
	runtime.ReadMemStats(&heap[1])
	p.Used, p.Allocated = after.CPU-before.CPU, float64(heap[1].TotalAlloc-heap[0].TotalAlloc)
	return p, err
}

// roleWatched runs a controller for each of watches, over one cache. "ready" returns when each has reconciled all keys,
// "pass" has one of them reconcile all keys some times.
func roleWatched(ctx context.Context, config json.RawMessage) (map[string]command, func() error, error) {
	var cfg watchedConfig
	if err := json.Unmarshal(config, &cfg); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	dispatchers, run, err := newDispatchers(ctx, cfg)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	ended := make(chan error, 1)
	names := make([]string, cfg.Keys)
	for i := range names {
		names[i] = fmt.Sprint("site-", i)
	}
	return map[string]command{
		"ready": func(ctx context.Context, _ json.RawMessage) (any, error) {
			go func() { ended <- run() }() // the documents are there
			for _, d := range dispatchers {
				if err := d.await(ctx); err != nil {
					return nil, err
				}
			}
			time.Sleep(time.Second) // the last records are written after the last reconcile
			return nil, nil
		},
		"pass": func(ctx context.Context, with json.RawMessage) (any, error) {
			var name string
			if err := json.Unmarshal(with, &name); err != nil {
				return nil, err
			}
			return dispatchers[name].reconcile(ctx, names)
		},
	}, func() error { cancel(); return <-ended }, nil
}

// newDispatchers makes the controllers; run runs them.
func newDispatchers(ctx context.Context, cfg watchedConfig) (all map[string]dispatcher, run func() error, err error) {
	js, err := connect(cfg.NATS)
	if err != nil {
		return nil, nil, err
	}
	sites, err := entity.NewClient[*v1.Website](ctx, js, entity.Config{Kind: "Website", Bucket: cfg.Bucket})
	if err != nil {
		return nil, nil, err
	}
	all = map[string]dispatcher{}
	var runs []func(context.Context) error
	for i, w := range watches {
		client, err := sites.WithStatusBucket(ctx, fmt.Sprint(cfg.Bucket, "-status-", i))
		if err != nil {
			return nil, nil, err
		}
		p := newPass(cfg.Keys)
		c, err := controller.New("websites", client, controller.ReconcilerFunc(func(
			context.Context, controller.Request,
		) (controller.Result, error) {
			p.reconciled()
			return controller.Result{}, nil
		}), w.apply([]controller.Option{controller.WithResyncInterval(0)})...)
		if err != nil {
			return nil, nil, err
		}
		all[w.name] = dispatcher{pass: p, enqueue: c.Enqueue}
		runs = append(runs, c.Run)
	}
	return all, func() error {
		defer sites.Close()
		return inParallel(len(runs), runEach(ctx, runs))
	}, nil
}

// runEach returns a function that runs another one of them with each call.
func runEach(ctx context.Context, runs []func(context.Context) error) func() error {
	var next atomic.Int64
	return func() error { return runs[next.Add(1)-1](ctx) }
}
