package traces_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/natstest/leaks"
	"github.com/nagi-runtime/nagi/traces"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m, leaks.OfServer()...)
}

type spec struct {
	Size int `json:"size,omitempty"`
}

type status struct {
	Ready int `json:"ready,omitempty"`
}

type thing = entity.Object[spec, status]

// world is a server, and a tracer whose spans are kept.
type world struct {
	t        *testing.T
	js       jetstream.JetStream
	spans    *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	tracer   *traces.Tracer
}

func newWorld(t *testing.T, sampler sdktrace.Sampler, opts ...traces.Option) *world {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	w := &world{t: t, js: js, spans: tracetest.NewInMemoryExporter()}
	w.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans), sdktrace.WithSampler(sampler))
	t.Cleanup(func() { _ = w.provider.Shutdown(context.Background()) })
	w.tracer = traces.New(w.provider, opts...)
	return w
}

// client makes a client whose writes are traced.
func (w *world) client(kind string) *entity.Client[*thing] {
	w.t.Helper()
	return w.clientWith(entity.Config{Kind: kind, Bucket: strings.ToLower(kind) + "s", OnWrite: w.tracer.OnWrite})
}

func (w *world) clientWith(cfg entity.Config) *entity.Client[*thing] {
	w.t.Helper()
	client, err := entity.NewClient[*thing](w.t.Context(), w.js, cfg)
	must(w.t, err)
	w.t.Cleanup(client.Close)
	return client
}

// run runs a traced controller until the test ends. It reconciles once it has synced.
func (w *world) run(
	client *entity.Client[*thing], reconcile controller.ReconcilerFunc, opts ...controller.Option,
) *controller.Controller[*thing] {
	w.t.Helper()
	c, err := controller.New(strings.ToLower(client.Kind()), client, reconcile,
		append([]controller.Option{controller.WithObserver(w.tracer)}, opts...)...)
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	natstest.Eventually(w.t, client.Kind()+" leads", func() bool { return c.Stats().Leading })
	return c
}

// inSpan calls f in a span of that name, as a user's program would.
func (w *world) inSpan(name string, f func(ctx context.Context)) trace.SpanContext {
	ctx, span := w.provider.Tracer("user").Start(w.t.Context(), name)
	f(ctx)
	span.End()
	return span.SpanContext()
}

// makes returns a reconciler that creates a thing of the same name, and is content with the one that is there.
func makes(from, to *entity.Client[*thing]) controller.ReconcilerFunc {
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		obj, err := from.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		made := &thing{ObjectMeta: metav1.ObjectMeta{Name: obj.Name}}
		_, err = controller.CreateOrUpdate(ctx, to, made, func(made *thing) error {
			made.Spec = obj.Spec
			return nil
		})
		return controller.Result{}, err
	}
}

// disks is a driver of an API in memory.
type disks struct {
	mu    sync.Mutex
	sizes map[string]int
}

func (*disks) Kind() string { return "Disk" }

func (d *disks) Observe(ctx context.Context, target external.Target) (external.Observation[int], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size, exists := d.sizes[target.Owner.Key]; exists {
		return external.Exists(size), nil
	}
	return external.Absent[int](), nil
}

func (*disks) Diff(desired spec, observed int) []external.Change {
	if desired.Size == observed {
		return nil
	}
	return []external.Change{{Field: "size"}}
}

func (d *disks) Apply(
	ctx context.Context, request external.ApplyRequest[spec, int],
) (external.Outcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sizes[request.Owner.Key] = request.Desired.Size
	return external.Done(), nil
}

func (d *disks) Delete(ctx context.Context, request external.DeleteRequest[int]) (external.Outcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sizes, request.Owner.Key)
	return external.Done(), nil
}

// all returns the spans that have ended, in the order of their beginning.
func (w *world) all() tracetest.SpanStubs {
	spans := w.spans.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return spans
}

// named returns the spans of that name.
func (w *world) named(name string) tracetest.SpanStubs {
	return slices.DeleteFunc(w.all(), func(s tracetest.SpanStub) bool { return s.Name != name })
}

// await waits until n spans of that name have ended.
func (w *world) await(name string, n int) tracetest.SpanStubs {
	w.t.Helper()
	natstest.Eventually(w.t, fmt.Sprintf("%d spans %q", n, name), func() bool { return len(w.named(name)) >= n })
	return w.named(name)
}

// tree draws the spans below a span: its children, and what is linked to it and has no parent.
func tree(spans tracetest.SpanStubs, root trace.SpanContext) string {
	var b strings.Builder
	var draw func(of trace.SpanID, depth int)
	draw = func(of trace.SpanID, depth int) {
		for _, s := range spans {
			if cause(s) == of {
				fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), s.Name)
				draw(s.SpanContext.SpanID(), depth+1)
			}
		}
	}
	draw(root.SpanID(), 0)
	return b.String()
}

// cause is the parent of a span, or what it is linked to last.
func cause(s tracetest.SpanStub) trace.SpanID {
	if s.Parent.HasSpanID() || len(s.Links) == 0 {
		return s.Parent.SpanID()
	}
	return s.Links[len(s.Links)-1].SpanContext.SpanID()
}

func attr(s tracetest.SpanStub, key string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
