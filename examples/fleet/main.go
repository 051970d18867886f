// Fleet is a small platform as it runs in production: an order makes workloads, which make volumes. One process has the
// three controllers, and there are two replicas of it, of which one leads. The program asks and does what an operator
// does, and checks each step:
//
//   - an order becomes workloads and volumes, and one trace shows that, through all three controllers
//   - /readyz, /healthz, /metrics and the registry of kinds answer; Explain says why an order waits
//   - the replica that leads is stopped, and the other one goes on
//   - the network of the one that leads is cut, and the other one takes over when the lease is over
//
// Usage:
//
//	go run ./examples/fleet               # ends by itself, with exit code 0, or 1 and the step that failed
//	go run ./examples/fleet -serve        # goes on until interrupted: metrics, probes, and each trace on the terminal
//	go run ./examples/fleet -url nats://… # on your own server
//
// replica.go is what a program of your own needs; all other files play its users and its operator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"
)

// settings are what the command line says.
type settings struct {
	serve bool
	port  int // of the embedded server; 0 takes a free one
	url   string
	// http are where the replicas serve metrics and probes.
	http [2]string
}

func main() {
	var s settings
	flag.BoolVar(&s.serve, "serve", false, "after the scenario, go on until interrupted")
	flag.IntVar(&s.port, "port", 4222,
		"where the embedded server of -serve listens; at 4222 the nats command line tool finds it without being told")
	flag.StringVar(&s.url, "url", "", "use this NATS server instead of an embedded one")
	flag.StringVar(&s.http[0], "a", "127.0.0.1:8081", "where replica a of -serve serves metrics and probes")
	flag.StringVar(&s.http[1], "b", "127.0.0.1:8082", "where replica b of -serve serves metrics and probes")
	verbose := flag.Bool("log", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	if !s.serve {
		s.port, s.http = 0, [2]string{"127.0.0.1:0", "127.0.0.1:0"}
	}
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := run(ctx, os.Stdout, s); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// run plays the scenario, and then serves if that is asked for.
func run(ctx context.Context, out io.Writer, s settings) (err error) {
	url := s.url
	if url == "" {
		server, err := embedded(s.port)
		if err != nil {
			return err
		}
		defer server.Close()
		url = server.URL()
	}
	terminal := &terminal{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(terminal))
	defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx))) }()

	p, err := newPlay(ctx, url, s.http, provider)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	fmt.Fprintf(out, "nagi fleet on %s\n\n", url)
	if err := p.scenario(ctx, out, terminal); err != nil || !s.serve {
		return err
	}
	return p.serve(ctx, out, terminal, url)
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
