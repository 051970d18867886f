package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	fanInRate = 2000 // updates per second
	fanInOurs = "Nagi"
	fanInSlow = "Nagi, at the rate of controller-runtime"
	fanInCR   = "controller-runtime"
	// fanInShare is the share of a competitor's highest rate that it can hold for long, with room to breathe.
	fanInShare = 0.6
)

// fanIn is the result of one load on one controller.
type fanIn struct {
	rate       float64 // reached, per second
	latencies  []float64
	cpu        float64 // seconds of the controller, per 10,000 updates
	resident   float64
	unmeasured float64 // share of the updates that were merged into a later one
}

// runFanIn updates primaries at a fixed rate, with a reconciler that reads and writes nothing.
func runFanIn(ctx context.Context, b *bench) (c *chapter, err error) {
	primaries, duration := max(b.size(10_000), 10*writers), b.duration(time.Minute) // no two writers at one primary
	c = &chapter{title: "4. Fan-in under load", setup: fmt.Sprintf(
		"%d updates per second for %.0f s over %s primaries of 450 B. "+
			"From before the write until a reconcile, of 8 workers, has read that\n"+
			"version from its cache (the write is part of it). The reconciler writes nothing. "+
			"Nagi writes two records for each new\n"+
			"revision, which are its promise that a delete is never lost. "+
			"controller-runtime gets the rate that it can hold: %.0f %%\n"+
			"of the most that %d writers reached against it in a few seconds, at most %d; "+
			"it is then compared with Nagi at its rate, too.",
		fanInRate, duration.Seconds(), number(float64(primaries)), fanInShare*100, writers, fanInRate)}
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

	results := map[string]*fanIn{}
	ours := controllerConfig{Runtime: "nagi", NATS: nats.url, Place: "fanin", Workers: 8}
	if results[fanInOurs], err = fanInOn(ctx, b, ours, nats, kube, primaries, fanInRate, duration); err != nil {
		return c, err
	}
	theirs := controllerConfig{Runtime: "controller-runtime", Kube: kube.address, Place: "fanin", Workers: 8}
	if results[fanInCR], err = fanInOn(ctx, b, theirs, nats, kube, primaries, 0, duration); err != nil {
		return c, err
	}
	if held := results[fanInCR].rate; held < 0.97*results[fanInOurs].rate {
		ours.Place = "fanin-slow"
		if results[fanInSlow], err = fanInOn(ctx, b, ours, nats, kube, primaries, held, duration); err != nil {
			return c, err
		}
	}
	fanInReport(c, results)
	return c, nil
}

func fanInReport(c *chapter, results map[string]*fanIn) {
	rate := c.figure("updates per second, held", "/s").higherIsBetter()
	p50, p99, p999 :=
		c.figure("write to reconcile, median", "s"),
		c.figure("the same, p99", "s"),
		c.figure("the same, p99.9", "s")
	cpu := c.figure("CPU seconds of the controller per 10,000 updates", "s")
	memory := c.figure("resident memory of the controller at the end", "B")
	merged := c.figure("updates merged into a later one of their key", "%").forInformation()
	for _, name := range []string{fanInOurs, fanInCR, fanInSlow} {
		r, ok := results[name]
		if !ok {
			continue
		}
		rate.add(name, r.rate)
		p50.add(name, quantile(r.latencies, 0.5))
		p99.add(name, quantile(r.latencies, 0.99))
		p999.add(name, quantile(r.latencies, 0.999))
		cpu.add(name, r.cpu)
		memory.add(name, r.resident)
		merged.add(name, 100*r.unmeasured)
	}
	c.reach(rate.median(fanInOurs) >= 0.99*fanInRate,
		fmt.Sprintf("%d updates per second are held", fanInRate), "%.0f per second",
		rate.median(fanInOurs))
}

// fanInOn loads one controller. With rate 0 it first finds out which rate the controller can hold.
func fanInOn(ctx context.Context, b *bench, cfg controllerConfig, nats *natsServer, kube *kubeServer,
	primaries int, rate float64, duration time.Duration) (_ *fanIn, err error) {
	u, err := place(ctx, cfg, nats, kube)
	if err != nil {
		return nil, err
	}
	controller, err := startController(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer stopAll(&err, controller)
	if err := writeAll(ctx, u, "site", primaries); err != nil {
		return nil, err
	}
	if rate == 0 {
		highest, err := update(ctx, u, primaries, 1e9, min(duration, 5*time.Second))
		if err != nil {
			return nil, err
		}
		rate = min(fanInRate, fanInShare*highest)
		b.say("fanin: %s: at most %.0f/s, so %.0f/s", cfg.Runtime, highest, rate)
	}
	for _, do := range []string{"calm", "samples"} { // earlier samples do not count
		if err := controller.call(ctx, do, nil, nil); err != nil {
			return nil, err
		}
	}
	before, err := controller.usage(ctx)
	if err != nil {
		return nil, err
	}
	r := &fanIn{}
	if r.rate, err = update(ctx, u, primaries, rate, duration); err != nil {
		return nil, err
	}
	if err := controller.call(ctx, "calm", nil, nil); err != nil {
		return nil, err
	}
	after, err := controller.usage(ctx)
	if err != nil {
		return nil, err
	}
	var samples []sample
	if err := controller.call(ctx, "samples", nil, &samples); err != nil {
		return nil, err
	}
	for _, s := range samples {
		r.latencies = append(r.latencies, s.Took)
	}
	updates := r.rate * duration.Seconds()
	r.cpu, r.resident = (after.CPU-before.CPU)/updates*10_000, after.Resident
	r.unmeasured = max(0, 1-float64(len(samples))/updates)
	b.say("fanin: %s: %.0f/s, median %s, p99 %s, %.1f s of CPU", cfg.Runtime, r.rate,
		format(quantile(r.latencies, 0.5), "s"), format(quantile(r.latencies, 0.99), "s"), after.CPU-before.CPU)
	return r, nil
}

// update updates primaries in a fixed, scattered order at a rate, and returns the rate that it reached.
func update(ctx context.Context, u user, primaries int, rate float64, duration time.Duration) (float64, error) {
	var next atomic.Int64
	began := time.Now()
	end := began.Add(duration)
	err := inParallel(writers, func() error {
		for {
			i := next.Add(1) - 1
			due := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			if due.After(end) || time.Now().After(end) || ctx.Err() != nil {
				next.Add(-1)
				return ctx.Err()
			}
			time.Sleep(time.Until(due))
			key := int(i * 7919 % int64(primaries)) // a prime: keys come in turn, far from each other
			if err := u.write(ctx, fmt.Sprint("site-", key), key); err != nil {
				return err
			}
		}
	})
	return float64(next.Load()) / max(time.Since(began), duration).Seconds(), err
}
