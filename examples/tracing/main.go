// Tracing shows what one put causes: an order makes a workload, which makes a volume, which makes a disk behind an API.
// Three controllers do that, one after the other, and a single trace shows it all, from the put to the call of the API,
// and back again as each becomes ready. It is printed as a tree. The option traces.TrustHeaders makes it one trace;
// without it each reconcile has a trace of its own, which is linked.
//
//	go run ./examples/tracing               # ends by itself, with exit code 0, or 1 and what went wrong
//	go run ./examples/tracing -url nats://…  # on your own server
//
// A real program gives its provider an exporter, such as otlptracehttp of OpenTelemetry, instead of the one in memory.
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
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/traces"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx))) }()

	// One trace for all is an option, and here only this program writes. By default each reconcile begins a trace that
	// is linked to its cause, because a header is what any writer of a document says.
	w, err := newWorld(ctx, js, traces.New(provider, traces.TrustHeaders()))
	if err != nil {
		return err
	}
	defer w.close()
	stop, err := w.start(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "nagi tracing on %s\n\n", nc.ConnectedUrl())
	err = order(ctx, w, provider)
	if err = errors.Join(err, stop()); err != nil { // then all spans have ended
		return err
	}
	return show(out, spans.GetSpans())
}

// patience is how long the chain may take.
const patience = 30 * time.Second

// order puts an order, as a user's program would: in a span of its own. It waits until the order is ready.
func order(ctx context.Context, w *world, provider *sdktrace.TracerProvider) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := fmt.Sprintf("order-%d", time.Now().UnixNano())
	traced, span := provider.Tracer("shop").Start(ctx, "a customer orders")
	err := w.orders.Create(traced, &Thing{ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: Spec{Gigabytes: 20}})
	span.End()
	if err != nil {
		return fmt.Errorf("put the order: %w", err)
	}
	if err := w.awaitReady(ctx, key); err != nil {
		return fmt.Errorf("wait until order %s is ready: %w", key, err)
	}
	return nil
}

// client makes a client whose writes carry the trace on.
func client(ctx context.Context, js jetstream.JetStream, tracer *traces.Tracer, kind, bucket string) (
	*entity.Client[*Thing], error,
) {
	return entity.NewClient[*Thing](ctx, js, entity.Config{
		Kind: kind, Bucket: bucket, Storage: jetstream.MemoryStorage, OnWrite: tracer.OnWrite,
	})
}
