// Quickstart is the first five minutes with Nagi: a NATS server in this process, a controller for websites that own
// pages and a route, and a user who creates, updates, breaks and deletes them. It checks each step by live reads, and
// prints it with its revision and how long it took until the world matched.
//
//	go run ./examples/quickstart                    # exit code 0, or 1 and the step that failed
//	go run ./examples/quickstart -serve             # goes on serving on port 4222 until interrupted
//	go run ./examples/quickstart -url nats://…      # on your own server, with -creds if it needs them
//
// While it serves, write from another terminal:
//
//	nats kv put websites blog '{"spec":{"domain":"blog.example","pages":["home"]}}'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

func main() {
	serve := flag.Bool("serve", false, "after the scenario, serve on -port until interrupted")
	port := flag.Int("port", 4222,
		"where -serve listens; at 4222 the nats command line tool finds it without being told")
	url := flag.String("url", "", "use this NATS server instead of an embedded one")
	creds := flag.String("creds", "", "credentials file for -url")
	verbose := flag.Bool("log", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if !*serve {
		*port = 0
	}
	if err := run(ctx, *port, *url, *creds); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// run runs the scenario, and then serves if the port is not zero.
func run(ctx context.Context, port int, url, creds string) (err error) {
	if url == "" {
		server, err := embedded(port)
		if err != nil {
			return err
		}
		defer server.Close()
		url = server.URL()
	}
	var opts []nats.Option
	if creds != "" {
		opts = append(opts, nats.UserCredentials(creds))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	// The services API, over which nagi asks, answers on a connection of its own.
	own, err := nats.Connect(url, append(opts, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer own.Close()
	svc, err := service.New(service.Config{Conn: own})
	if err != nil {
		return err
	}
	r, err := newReconciler(ctx, js)
	if err != nil {
		return err
	}
	c, err := controller.New("quickstart", r.websites, r, controller.Owns(r.pages), controller.Owns(r.routes),
		controller.WithWorkers(2), svc.Controller(), registry.Publish(registry.Options{}))
	if err != nil {
		return err
	}
	stopCtx, stop := context.WithCancel(ctx)
	stopped := make(chan error, 2)
	go func() { stopped <- c.Run(stopCtx) }()
	go func() { stopped <- svc.Run(stopCtx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-stopped, <-stopped)
	}()

	fmt.Printf("nagi quickstart on %s\n\n", nc.ConnectedUrl())
	if err := scenario(ctx, js, r); err != nil || port == 0 {
		return err
	}
	fmt.Printf("\nServing. In another terminal:\n\n"+
		"  nats -s %[1]s kv put websites blog '{\"spec\":{\"domain\":\"blog.example\",\"pages\":[\"home\"]}}'\n"+
		"  go run ./cmd/nagi -s %[1]s tree websites/blog\n\nInterrupt to stop.\n", nc.ConnectedUrl())
	return watch(ctx, r)
}

func embedded(port int) (*natstest.Server, error) {
	if port == 0 {
		return natstest.New()
	}
	server, err := natstest.New(natstest.WithPort(port))
	if err != nil {
		return nil, fmt.Errorf("serve on port %d "+
			"(if another NATS server runs there, use -url for it, or another -port): %w", port, err)
	}
	return server, nil
}

// watch prints the changes of websites until the context ends.
func watch(ctx context.Context, r *reconciler) error {
	start := time.Now()
	_, err := r.websites.Informer().AddEventHandler(printer(start))
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
