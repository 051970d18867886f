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
	return c, shardRestart(ctx, b, c, nats, restarted)
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
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began).Seconds()
	c.figure("one of four killed, until its slots are at work elsewhere", "s").add("4 replicas", took)
	c.reach(took <= 17, "the keys of a replica that died run elsewhere within its lease (15 s) and 2 s", "%.1f s", took)
	return nil
}

func (c *otherController) shards() *controller.ShardStats { return nil }
func (c *bareController) shards() *controller.ShardStats  { return nil }
