// Configured runs controllers for kinds that a file names, and that no Go type is of: kinds.json says that a Shop owns a
// Website, which owns a Page for each entry in its spec.pages. A scenario creates, changes and deletes documents. It
// checks each step by live reads, and prints it.
//
//	go run ./examples/configured                      # exit code 0, or 1 and the step that failed
//	go run ./examples/configured -kinds my.json -serve   # on port 4222, with kinds of yours, until it is interrupted
//	go run ./examples/configured -v                   # with the runtime's log
//
// Read kinds.go for the configuration, controllers.go for the controllers, and scenario.go for the scenario.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

//go:embed kinds.json
var kindsOfTheScenario []byte

func main() {
	file := flag.String("kinds", "", "serve the kinds of this file; the scenario has its own")
	serve := flag.Bool("serve", false, "serve NATS on port 4222 until interrupted, instead of playing the scenario")
	url := flag.String("url", "", "use this NATS server instead of an embedded one")
	verbose := flag.Bool("v", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := start(ctx, os.Stdout, *file, *serve, *url); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, out io.Writer, file string, serve bool, url string) error {
	data := kindsOfTheScenario
	if file != "" {
		if !serve {
			return errors.New("-kinds needs -serve: the scenario knows its own kinds only")
		}
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("read -kinds: %w", err)
		}
	}
	all, err := parseKinds(data)
	if err != nil {
		return err
	}
	if url == "" {
		var options []natstest.Option
		if serve {
			options = append(options, natstest.WithPort(4222))
		}
		server, err := natstest.New(options...)
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
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if serve {
		fmt.Fprintf(out, "%d kinds on %s. Try: nats kv put shops corner '{\"spec\":{\"sells\":\"tea\"}}'\n",
			len(all.Kinds), nc.ConnectedUrl())
		return run(ctx, js, all, func(ctx context.Context, _ Clients) error {
			<-ctx.Done()
			return nil
		})
	}
	return run(ctx, js, all, func(ctx context.Context, clients Clients) error {
		return play(ctx, out, js, clients)
	})
}

// run runs the controllers of all kinds while f runs.
func run(
	ctx context.Context, js jetstream.JetStream, all Kinds, f func(context.Context, Clients) error,
) (err error) {
	clients, err := clientsOf(ctx, js, all)
	if err != nil {
		return err
	}
	defer clients.Close()
	controllers, err := controllersOf(all, clients)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, len(controllers))
	for _, c := range controllers {
		go func() { stopped <- c.Run(running) }()
	}
	defer func() {
		stop()
		for range controllers {
			err = errors.Join(err, <-stopped)
		}
	}()
	return f(ctx, clients)
}
