package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

const (
	restartOurs = "Nagi"
	restartCR   = "controller-runtime"
)

// runRestart starts controllers anew where all their work is done already.
func runRestart(ctx context.Context, b *bench) (c *chapter, err error) {
	primaries := b.size(100_000)
	c = &chapter{title: "5. Restart", setup: fmt.Sprintf(
		"%s primaries, each with two secondaries and a status, are there as the controller leaves them, "+
			"which was stopped in good\n"+
			"order (for controller-runtime they were written directly, as it would). "+
			"It is started again, with 16 workers: from its\n"+
			"start until its caches have synced and its workers work (for Nagi that includes its lease), "+
			"until every primary was reconciled, and how many writes it sent until it was calm again.",
		number(float64(primaries)))}
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
	cfgs := map[string]controllerConfig{
		restartOurs: {Runtime: "nagi", NATS: nats.url, Place: "restart", Secondaries: 2, Workers: 16},
		restartCR:   {Runtime: "controller-runtime", Kube: kube.address, Place: "restart", Secondaries: 2, Workers: 16},
	}
	names := []string{restartOurs, restartCR}
	for _, name := range names {
		began := time.Now()
		if err := settle(ctx, b, cfgs[name], nats, kube, primaries); err != nil {
			return c, fmt.Errorf("%s: the first time: %w", name, err)
		}
		b.say("restart: %s: %d primaries and their secondaries are there after %.0f s",
			name, primaries, time.Since(began).Seconds())
	}
	synced, all := c.figure("until synced and at work", "s"), c.figure("until every primary was reconciled", "s")
	writes := c.figure("writes", "")
	cpu := c.figure("CPU seconds of the controller until calm", "s")
	memory := c.figure("most resident memory of the controller", "B")
	for range b.turns(3) {
		for _, name := range names {
			r, err := restart(ctx, cfgs[name], nats, primaries)
			if err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
			synced.add(name, r.synced)
			all.add(name, r.all)
			writes.add(name, r.writes)
			cpu.add(name, r.usage.CPU)
			memory.add(name, r.usage.Peak)
			b.say("restart: %s: synced %s, all %s, %.0f writes",
				name, format(r.synced, "s"), format(r.all, "s"), r.writes)
		}
	}
	c.reach(writes.median(restartOurs) == 0, "no writes", "%s", number(writes.median(restartOurs)))
	return c, nil
}

// settle lets a controller make everything for the first time.
func settle(
	ctx context.Context, b *bench, cfg controllerConfig, nats *natsServer, kube *kubeServer, primaries int,
) (err error) {
	u, err := place(ctx, cfg, nats, kube)
	if err != nil {
		return err
	}
	if cfg.Runtime != "nagi" {
		if err := createSettled(ctx, kube, cfg, primaries); err != nil {
			return err
		}
	}
	controller, err := startController(ctx, cfg)
	if err != nil {
		return err
	}
	defer stopAll(&err, controller)
	if cfg.Runtime == "nagi" {
		if err := writeAll(ctx, u, "site", primaries); err != nil {
			return err
		}
	}
	if err := controller.call(ctx, "await", primaries, nil); err != nil {
		return err
	}
	return controller.call(ctx, "calm", nil, nil)
}

// createSettled creates primaries, their secondaries and their status as controller_other.go would. That controller
// itself would need far longer: while its cache has only one of the two secondaries, it creates the other one again,
// and it retries only ten such failures a second.
func createSettled(ctx context.Context, kube *kubeServer, cfg controllerConfig, primaries int) error {
	scheme := newScheme()
	var next atomic.Int64
	return inParallel(writers, func() error {
		for i := int(next.Add(1)) - 1; i < primaries; i = int(next.Add(1)) - 1 {
			site := newWebsite(fmt.Sprint("site-", i), i, 0)
			site.Namespace = cfg.Place
			if err := kube.client.Create(ctx, site); err != nil {
				return err
			}
			for n := range cfg.Secondaries {
				configMap := &corev1.ConfigMap{}
				configMap.Namespace, configMap.Name = cfg.Place, secondaryName(site.Name, n)
				if err := ownedConfigMap(configMap, site, scheme); err != nil {
					return err
				}
				if err := kube.client.Create(ctx, configMap); err != nil {
					return err
				}
			}
			site.Status = statusOf(site)
			if err := kube.client.Status().Update(ctx, site); err != nil {
				return err
			}
		}
		return nil
	})
}

type restarted struct {
	synced, all, writes float64
	usage               usage
}

func restart(ctx context.Context, cfg controllerConfig, nats *natsServer, primaries int) (r restarted, err error) {
	before, err := sequences(ctx, nats.js, cfg)
	if err != nil {
		return r, err
	}
	controller, err := startProcess(ctx, "controller", cfg)
	if err != nil {
		return r, err
	}
	defer stopAll(&err, controller)
	if err := controller.call(ctx, "ready", nil, &r.synced); err != nil {
		return r, err
	}
	if err := controller.call(ctx, "await", primaries, &r.all); err != nil {
		return r, err
	}
	if err := controller.call(ctx, "calm", nil, nil); err != nil {
		return r, err
	}
	if r.usage, err = controller.usage(ctx); err != nil {
		return r, err
	}
	if err := controller.call(ctx, "writes", nil, &r.writes); err != nil {
		return r, err
	}
	stored, err := storedSince(ctx, nats.js, cfg, before)
	r.writes += stored
	return r, err
}

// streams returns the streams to which a Nagi controller writes.
func streams(cfg controllerConfig) []string {
	if cfg.Runtime != "nagi" {
		return nil
	}
	return []string{"KV_" + cfg.Place, "KV_" + cfg.Place + "-secondaries", "KV_" + cfg.Place + "-status"}
}

func sequences(ctx context.Context, js jetstream.JetStream, cfg controllerConfig) (map[string]uint64, error) {
	last := map[string]uint64{}
	for _, name := range streams(cfg) {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		last[name] = stream.CachedInfo().State.LastSeq
	}
	return last, nil
}

// storedSince counts the messages that were stored since then, without the lease and the runtime's other own keys.
func storedSince(
	ctx context.Context, js jetstream.JetStream, cfg controllerConfig, before map[string]uint64,
) (float64, error) {
	now, err := sequences(ctx, js, cfg)
	if err != nil {
		return 0, err
	}
	count, reserved := 0.0, 0.0
	for name, last := range now {
		count += float64(last - before[name])
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return 0, err
		}
		for sequence := before[name] + 1; sequence <= last && last-before[name] < 10_000; sequence++ {
			message, err := stream.GetMsg(ctx, sequence)
			// A missing message was written over: only the runtime's own keys are written so often.
			if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && strings.Contains(message.Subject, "._nagi") {
				reserved++
			} else if err != nil {
				return 0, err
			}
		}
	}
	return count - reserved, nil
}
