// JetStream is a small NACK without Kubernetes: streams and consumers are documents in NATS, and controllers make the
// real ones match, as external resources through external.Reconcile. They repair a stream that somebody edits or
// deletes by hand, and leave alone one that somebody else made. Each step is checked by live reads and printed.
//
//	go run ./examples/jetstream              # ends by itself, with exit code 0, or 1 and the step that failed
//	go run ./examples/jetstream -url nats://…  # on your own server
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

func main() {
	url := flag.String("url", "", "use this NATS server instead of an embedded one")
	verbose := flag.Bool("log", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := run(ctx, os.Stdout, *url); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// world is what the scenario reads and writes.
type world struct {
	js        jetstream.JetStream
	streams   *entity.Client[*Stream]
	consumers *entity.Client[*Consumer]
}

func run(ctx context.Context, out io.Writer, url string) (err error) {
	if url == "" {
		server, err := natstest.New()
		if err != nil {
			return err
		}
		defer server.Close()
		url = server.URL()
	}
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer nc.Close()
	w, err := newWorld(ctx, nc)
	if err != nil {
		return err
	}
	defer w.streams.Close()
	defer w.consumers.Close()
	controllers, err := w.controllers()
	if err != nil {
		return err
	}
	stopCtx, stop := context.WithCancel(ctx)
	stopped := make(chan error, len(controllers))
	for _, run := range controllers {
		go func() { stopped <- run(stopCtx) }()
	}
	defer func() {
		stop()
		for range controllers {
			err = errors.Join(err, <-stopped)
		}
	}()
	_, _ = fmt.Fprintf(out, "nagi jetstream on %s\n\n", nc.ConnectedUrl())
	return scenario(ctx, out, w)
}

const streamsBucket = "nagi-sample-streams"

func newWorld(ctx context.Context, nc *nats.Conn) (w *world, err error) {
	w = &world{}
	if w.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if w.streams, err = entity.NewClient[*Stream](ctx, w.js,
		entity.Config{Kind: "Stream", Bucket: streamsBucket}); err != nil {
		return nil, err
	}
	w.consumers, err = entity.NewClient[*Consumer](ctx, w.js,
		entity.Config{Kind: "Consumer", Bucket: "nagi-sample-consumers"})
	return w, err
}

// controllers makes one for streams and one for consumers. Advisories report most changes at once. The lists find the
// rest, such as the consumers that go with their stream.
func (w *world) controllers() ([]func(context.Context) error, error) {
	config := external.Config{Interval: 2 * time.Second, Rate: 200, Burst: 50}
	s := &streams{entities: w.streams, driver: streamDriver{w.js}}
	ofStreams, err := controller.New("streams", w.streams, s,
		controller.OwnsExternal(external.Configure(streamClient{s.driver}, config)), controller.WithWorkers(2))
	if err != nil {
		return nil, err
	}
	c := &consumers{entities: w.consumers, streams: w.streams, driver: consumerDriver{w.js}}
	ofConsumers, err := controller.New("consumers", w.consumers, c, controller.Watches(w.streams, c.onStream),
		controller.OwnsExternal(external.Configure(consumerClient{c.driver}, config)), controller.WithWorkers(2))
	return []func(context.Context) error{ofStreams.Run, ofConsumers.Run}, err
}
