// Kumori is a controller written to the API of the Kumori controllerruntime, on a NATS server in this process. Apps are
// its primaries; each owns a Process and an Endpoint, and reads the Plan that it names. A scenario creates, updates,
// breaks and deletes things, and has two apps that want one endpoint. It checks each step by live reads, and prints it
// with the revision it led to and how long that took.
//
//	go run ./examples/kumori      # ends by itself, with exit code 0, or 1 and the step that failed
//	go run ./examples/kumori -v   # with the runtime's log
//
// Read app.go for the types, controller.go for the controller, and scenario.go for the scenario.
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
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// patience is how long the whole program may take.
const patience = time.Minute

func main() {
	verbose := flag.Bool("v", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// run starts a server and the controller, plays the scenario, and stops both.
func run(ctx context.Context, out io.Writer) (err error) {
	server, err := natstest.New()
	if err != nil {
		return err
	}
	defer server.Close()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		return fmt.Errorf("connect to %s: %w", server.URL(), err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	c, err := newController(ctx, js)
	if err != nil {
		return err
	}
	defer c.close()

	stopCh, errCh, stopped := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(stopped)
		c.Run(2, stopCh, errCh)
	}()
	err = play(ctx, out, c, errCh)
	close(stopCh)
	<-stopped // the workers have finished their current keys
	select {
	case fatal := <-errCh:
		err = errors.Join(err, fatal)
	default:
	}
	return err
}
