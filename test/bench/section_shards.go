package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

const (
	shardSlots   = 1024
	shardTakes   = 50 * time.Millisecond
	shardWorkers = 10
	shardMost    = 8 // replicas
)

// runShards measures what more replicas bring where reconciles wait, and how long slots take to be at work elsewhere.
func runShards(ctx context.Context, b *bench) (c *chapter, err error) {
	keys, restarted := b.size(6000), b.size(200_000)
	c = &chapter{title: "8. Shards", setup: fmt.Sprintf(
		"%s primaries are written, and each is reconciled once, which takes %v, as a call of an API might. 1 to %d replicas, "+
			"each\na process with %d workers, share them in %d slots. From the first write until four fifths are reconciled; "+
			"and until all\nare, which the replica with the most keys decides.\n"+
			"Then four replicas with %s primaries whose reconciles wait for nothing: one is stopped in good order and started "+
			"anew,\nuntil it has its slots again and works at them; and one is killed, until its slots are at work elsewhere.",
		number(float64(keys)), shardTakes, shardMost, shardWorkers, shardSlots, number(float64(restarted)))}
	nats, err := startNATS(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nats.stop()) }()
	most := c.figure("keys per second, until four fifths are reconciled", "/s").forInformation()
	all := c.figure("keys per second, until all are", "/s").forInformation()
	for n := 1; n <= shardMost; n *= 2 {
		fifths, whole, err := shardRate(ctx, nats, n, keys)
		if err != nil {
			return c, err
		}
		name := fmt.Sprintf("replicas: %d", n)
		most.add(name, fifths)
		all.add(name, whole)
		b.say("shards: %s: %.0f/s, %.0f/s until all are reconciled", name, fifths, whole)
	}
	one := most.median("replicas: 1")
	c.reach(most.median("replicas: 4") >= 0.9*4*one, "4 replicas are within 10 % of 4 times as fast", "%.2f times",
		most.median("replicas: 4")/one)
	if err := shardHeaps(ctx, b, c, nats, restarted); err != nil {
		return c, err
	}
	return c, shardRestart(ctx, b, c, nats, restarted)
}

// shardHeaps is how much memory each of some replicas takes whose caches have what belongs to their slots.
func shardHeaps(ctx context.Context, b *bench, c *chapter, nats *natsServer, primaries int) error {
	run := &scaleRun{b: b, nats: nats, place: "shards-heap", n: primaries}
	first, err := run.start(ctx, time.Hour*24)
	if err == nil {
		err = errors.Join(first.call(ctx, "ready", nil, nil), first.stop()) // it has made the buckets
	}
	u := &natsUser{js: nats.js, bucket: run.place}
	if err == nil {
		err = u.fill(ctx, "site", primaries)
	}
	if err == nil {
		err = run.addSecondaries(ctx)
	}
	if err != nil {
		return err
	}
	heaps := c.figure("heap of each replica with WithSlotCaches, for each of all primaries, which own a document each", "B")
	for n := 1; n <= 4; n *= 2 {
		if err := shardHeap(ctx, run, n, heaps); err != nil {
			return err
		}
		name := fmt.Sprintf("replicas: %d", n)
		b.say("shards: %s: heap for each primary of all: %.0f B", name, heaps.median(name))
	}
	one, two, four := heaps.median("replicas: 1"), heaps.median("replicas: 2"), heaps.median("replicas: 4")
	c.reach(two <= 0.6*one, "two replicas hold at most 60 % of what one holds", "%.0f %%", 100*two/one)
	c.reach(four <= 0.35*one, "four replicas hold at most 35 %", "%.0f %%", 100*four/one)
	return nil
}

func shardHeap(ctx context.Context, run *scaleRun, n int, heaps *figure) (err error) {
	var members []*process
	defer func() { stopAll(&err, members...) }()
	for i := range n {
		p, err := startProcess(ctx, "scale", scaleConfig{
			NATS: run.nats.url, Place: run.place, Primaries: run.n, Resync: time.Hour * 24, Member: fmt.Sprint("member-", i),
		})
		if err != nil {
			return err
		}
		members = append(members, p)
	}
	if err := awaitOpen(ctx, members); err != nil {
		return err
	}
	for _, p := range members {
		if err := p.call(ctx, "calm", nil, nil); err != nil {
			return err
		}
	}
	time.Sleep(shardKeeps)
	for _, p := range members {
		var heap float64
		if err := p.call(ctx, "heap", nil, &heap); err != nil {
			return err
		}
		heaps.add(fmt.Sprintf("replicas: %d", n), heap/float64(run.n))
	}
	return nil
}

// shardKeeps is longer than what leaves a replica with its slots stays in its caches.
const shardKeeps = 12 * time.Second

// awaitOpen returns when all slots are open at one of the members.
func awaitOpen(ctx context.Context, members []*process) error {
	for {
		open := 0
		for _, p := range members {
			var s controller.ShardStats
			if err := p.call(ctx, "shards", nil, &s); err != nil {
				return err
			}
			open += s.Open
		}
		if open == shardSlots {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func shardConfig(nats *natsServer, place string, i, n int) controllerConfig {
	return controllerConfig{
		Runtime: "nagi", NATS: nats.url, Place: place, Workers: shardWorkers, Shards: shardSlots, Members: n,
		Member: fmt.Sprint("member-", i),
	}
}

// startMembers starts n replicas, and waits until the slots are shared by all of them.
func startMembers(ctx context.Context, n int, of func(i int) controllerConfig) (members []*process, err error) {
	for i := range n {
		p, err := startProcess(ctx, "controller", of(i))
		if err != nil {
			return members, err
		}
		members = append(members, p)
	}
	for _, p := range members {
		if err := p.call(ctx, "ready", nil, nil); err != nil {
			return members, err
		}
	}
	return members, nil
}

// shardRate is how many keys a second n replicas reconcile.
func shardRate(ctx context.Context, nats *natsServer, n, keys int) (fifths, whole float64, err error) {
	place := fmt.Sprint("shards-", n)
	of := func(i int) controllerConfig {
		cfg := shardConfig(nats, place, i, n)
		cfg.Takes = shardTakes
		return cfg
	}
	u, err := placeOf(ctx, of(0), nats)
	if err != nil {
		return 0, 0, err
	}
	members, err := startMembers(ctx, n, of)
	defer stopAll(&err, members...)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := writeAll(ctx, u, "site", keys); err != nil {
		return 0, 0, err
	}
	for {
		done := 0
		for _, p := range members {
			var reconciles int
			if err := p.call(ctx, "reconciles", nil, &reconciles); err != nil {
				return 0, 0, err
			}
			done += reconciles
		}
		rate := float64(done) / time.Since(began).Seconds()
		if fifths == 0 && done >= keys*4/5 {
			fifths = rate
		}
		if done >= keys {
			return fifths, rate, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func placeOf(ctx context.Context, cfg controllerConfig, nats *natsServer) (user, error) {
	return place(ctx, cfg, nats, nil)
}

// shardRestart starts one of four replicas anew, and kills another.
func shardRestart(ctx context.Context, b *bench, c *chapter, nats *natsServer, primaries int) (err error) {
	const n = 4
	of := func(i int) controllerConfig { return shardConfig(nats, "shards-restart", i, n) }
	u, err := placeOf(ctx, of(0), nats)
	if err != nil {
		return err
	}
	members, err := startMembers(ctx, n, of)
	defer func() { stopAll(&err, members...) }()
	if err == nil {
		err = writeAll(ctx, u, "site", primaries)
	}
	if err != nil {
		return err
	}
	for _, p := range members {
		if err := p.call(ctx, "calm", nil, nil); err != nil {
			return err
		}
	}
	if err := members[0].stop(); err != nil {
		return err
	}
	began := time.Now()
	anew, err := startMembers(ctx, 1, func(int) controllerConfig { return of(0) })
	members[0] = anew[0]
	if err != nil {
		return err
	}
	c.figure("restart of one of four, until its slots are at work", "s").add("4 replicas", time.Since(began).Seconds())
	resident := c.figure("resident memory of each of four replicas", "B")
	for _, p := range members {
		usage, err := p.usage(ctx)
		if err != nil {
			return err
		}
		resident.add("4 replicas", usage.Resident)
	}
	began = time.Now()
	members[1].kill()
	members = append(members[:1], members[2:]...)
	if err := awaitOpen(ctx, members); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	c.figure("one of four killed, until its slots are at work elsewhere", "s").add("4 replicas", took)
	c.reach(took <= 17, "the keys of a replica that died run elsewhere within its lease (15 s) and 2 s", "%.1f s", took)
	return nil
}

func (c *otherController) shards() *controller.ShardStats { return nil }
func (c *bareController) shards() *controller.ShardStats  { return nil }
