package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

// bareController only sends the messages of a controller. It is a program on nats.go that, for each primary, sends
// the same writes as Nagi, as large, by compare-and-set, and waits where Nagi must. It watches the same buckets as a
// controller, decodes nothing, keeps no cache and checks nothing. The time that it takes is the cost of NATS; the
// rest of Nagi's time is Nagi's own.
type bareController struct {
	cfg     controllerConfig
	js      jetstream.JetStream
	work    chan jetstream.Msg
	watches []jetstream.MessagesContext
	reading sync.WaitGroup
	all     sync.WaitGroup

	mu       sync.Mutex
	outcomes []jetstream.PubAckFuture // only stop waits for them
	failed   error
}

func startBare(ctx context.Context, cfg controllerConfig, _ *observer) (underTest, error) {
	js, err := connect(cfg.NATS)
	if err != nil {
		return nil, err
	}
	c := &bareController{cfg: cfg, js: js, work: make(chan jetstream.Msg, 1024)}
	sites, err := entity.NewClient[*v1.Website](ctx, js, entity.Config{Kind: "Website", Bucket: cfg.Place})
	if err != nil {
		return nil, err
	}
	sites.Close()
	configMaps, err := entity.NewClient[*corev1.ConfigMap](ctx, js, entity.Config{
		Kind: "ConfigMap", Bucket: cfg.Place + "-secondaries",
	})
	if err != nil {
		return nil, err
	}
	configMaps.Close()
	for bucket, handle := range map[string]func(jetstream.Msg){
		cfg.Place:                  func(m jetstream.Msg) { c.work <- m },
		cfg.Place + "-secondaries": func(jetstream.Msg) {},
		cfg.Place + "-status":      func(jetstream.Msg) {},
	} {
		if err := c.watch(ctx, bucket, handle); err != nil {
			return nil, err
		}
	}
	for range cfg.Workers {
		c.all.Go(func() {
			for m := range c.work {
				outcome, err := c.reconcile(m)
				c.mu.Lock()
				c.failed = errors.Join(c.failed, err)
				if outcome != nil {
					c.outcomes = append(c.outcomes, outcome)
				}
				c.mu.Unlock()
			}
		})
	}
	return c, nil
}

func (c *bareController) watch(ctx context.Context, bucket string, handle func(jetstream.Msg)) error {
	messages, err := rawMessages(ctx, c.js, bucket, 512)
	if err != nil {
		return err
	}
	c.watches = append(c.watches, messages)
	c.reading.Go(func() {
		for m, err := messages.Next(); err == nil; m, err = messages.Next() {
			handle(m)
		}
	})
	return nil
}

// reconcile writes an anchor, a secondary, and the status with the outcome, each when the one before is stored.
func (c *bareController) reconcile(m jetstream.Msg) (outcome jetstream.PubAckFuture, err error) {
	ctx := context.Background()
	name := strings.TrimPrefix(m.Subject(), "$KV."+c.cfg.Place+".")
	status, secondary := "$KV."+c.cfg.Place+"-status."+name, "$KV."+c.cfg.Place+"-secondaries."+name+"-0"
	const head = `{"schemaVersion":1,"controller":"websites","stream":"2026-01-01T00:00:00.000000000Z",` +
		`"documentRevision":1000,"lastDocument":`
	const ready = `,"statusRevision":1,"status":{"ready":true,"address":"https://shop-1000.example.com"}`
	var before uint64
	if c.cfg.WithoutTeardown {
		if _, err := c.js.Publish(ctx, secondary, m.Data(), jetstream.WithExpectLastSequencePerSubject(0)); err != nil {
			return nil, err
		}
		_, err := c.js.Publish(ctx, status, []byte(`{"schemaVersion":1`+ready+`}`),
			jetstream.WithExpectLastSequencePerSubject(0))
		return nil, err
	}
	anchor := slices.Concat([]byte(head), m.Data())
	for _, write := range []struct {
		subject  string
		data     []byte
		expected *uint64
	}{{status, slices.Concat(anchor, []byte("}")), &before}, {secondary, m.Data(), new(uint64)}} {
		ack, err := c.js.Publish(ctx, write.subject, write.data,
			jetstream.WithExpectLastSequencePerSubject(*write.expected))
		if err != nil {
			return nil, err
		}
		*write.expected = ack.Sequence
	}
	last := slices.Concat(anchor, []byte(ready+`,"observedRevision":1000,`+
		`"conditions":[{"type":"Reconciled","status":"True","observedGeneration":1000,`+
		`"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Synced","message":""}]}`))
	return c.js.PublishMsgAsync(&nats.Msg{Subject: status, Data: last},
		jetstream.WithExpectLastSequencePerSubject(before))
}

func (c *bareController) awaitReady(context.Context) error { return nil }

func (c *bareController) writes() int64 { return 0 }

func (c *bareController) stop() error {
	for _, w := range c.watches {
		w.Stop()
	}
	c.reading.Wait()
	close(c.work)
	c.all.Wait()
	<-c.js.PublishAsyncComplete()
	for _, outcome := range c.outcomes {
		select {
		case err := <-outcome.Err():
			c.failed = errors.Join(c.failed, err)
		default:
		}
	}
	return c.failed
}
