package traces_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/traces"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWithoutUncausedOnlyWhatTracedWritesCauseHasSpans: also not what a reconcile without a span writes, and nothing is
// in a span around Controller.Run, such as the records that are there before the first reconciles.
func TestWithoutUncausedOnlyWhatTracedWritesCauseHasSpans(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample(), traces.UncausedPerSecond(0))
		sites, pages := w.client("Site"), w.client("Page")
		around, span := w.provider.Tracer("user").Start(t.Context(), "around Run")
		c, err := controller.New("site", sites, makes(sites, pages), controller.WithObserver(w.tracer))
		must(t, err)
		ctx, cancel := context.WithCancel(context.WithoutCancel(around))
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		defer func() {
			cancel()
			must(t, <-ended)
		}()
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })

		put := func(ctx context.Context, name string) {
			t.Helper()
			site := &thing{ObjectMeta: metav1.ObjectMeta{Name: name}}
			must(t, sites.Create(ctx, site))
			must(t, entity.WaitReconciled(t.Context(), sites, name, uint64(site.Generation)))
			_, err := pages.Get(t.Context(), name)
			must(t, err)
		}
		put(t.Context(), "quiet")
		for _, s := range w.spans.GetSpans() {
			t.Errorf("span %q of a put without a trace", s.Name)
		}
		user := w.inSpan("user", func(ctx context.Context) { put(ctx, "traced") })
		span.End()
		names := map[string]int{}
		for _, s := range w.spans.GetSpans() {
			names[s.Name]++
			if s.Name == "reconcile Site" && (len(s.Links) != 1 || s.Links[0].SpanContext.TraceID() != user.TraceID()) {
				t.Errorf("the reconcile has links %+v, want one to the put", s.Links)
			}
		}
		for _, name := range []string{"put Site", "reconcile Site", "put Page"} {
			if names[name] != 1 {
				t.Errorf("%d spans %q, want one; all: %v", names[name], name, names)
			}
		}
	})
}

// TestUncausedReconcilesBeginNoMoreTracesThanTheyMay: the first of a second begin one, and again in the next; one that
// a traced write caused is not counted.
func TestUncausedReconcilesBeginNoMoreTracesThanTheyMay(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			opts []traces.Option
			of   [2]int // 1000 reconciles in a moment, and again a second later
		}{
			{nil, [2]int{100, 100}},
			{[]traces.Option{traces.UncausedPerSecond(3)}, [2]int{3, 3}},
			{[]traces.Option{traces.UncausedPerSecond(0)}, [2]int{0, 0}},
			{[]traces.Option{traces.UncausedPerSecond(-1)}, [2]int{1000, 1000}},
		} {
			spans := tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			tracer := traces.New(provider, c.opts...)
			now := time.Now()
			for second, want := range c.of {
				spans.Reset()
				at := now.Add(time.Duration(second) * time.Second)
				for range 1000 {
					tracer.End(tracer.Begin(t.Context(), controller.Beginning{Kind: "Site", At: at}), controller.Ending{})
				}
				if got := len(spans.GetSpans()); got != want {
					t.Errorf("%d options: %d spans in second %d, want %d", len(c.opts), got, second, want)
				}
				tracer.End(tracer.Begin(t.Context(), controller.Beginning{Kind: "Site", At: at, Causes: []controller.Cause{
					{TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
				}}), controller.Ending{})
				if got := len(spans.GetSpans()); got != want+1 {
					t.Errorf("%d options: a reconcile that a traced write caused has no span", len(c.opts))
				}
			}
			must(t, provider.Shutdown(t.Context()))
		}
	})
}

// TestWhatComesLateBeginsNoOtherSecond: a worker that was held up comes with the time of the second before.
func TestWhatComesLateBeginsNoOtherSecond(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		tracer := traces.New(provider, traces.UncausedPerSecond(3))
		now := time.Now()
		for i := range 1000 {
			at := now.Add(time.Duration(i%2) * time.Second)
			tracer.End(tracer.Begin(t.Context(), controller.Beginning{Kind: "Site", At: at}), controller.Ending{})
		}
		if got := len(spans.GetSpans()); got > 2*3 {
			t.Errorf("%d spans in two seconds, want no more than 3 in each", got)
		}
		spans.Reset()
		tracer.End(tracer.Begin(t.Context(), controller.Beginning{Kind: "Site", At: now.Add(-time.Hour)}), controller.Ending{})
		if len(spans.GetSpans()) != 1 {
			t.Error("no span after the clock was set back")
		}
		must(t, provider.Shutdown(t.Context()))
	})
}

// embedder is an observer that embeds a Tracer and gives the context something of its own.
type embedder struct{ *traces.Tracer }

func (o embedder) Begin(ctx context.Context, b controller.Beginning) context.Context {
	return context.WithValue(o.Tracer.Begin(ctx, b), embedder{}, "name")
}

// TestASpanEndsOnceAndWithItsTracer, also where an observer embeds the Tracer, and where two observe one controller of
// which one makes no span.
func TestASpanEndsOnceAndWithItsTracer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		first, second := traces.New(provider), traces.New(provider, traces.UncausedPerSecond(0))
		begin, end := controller.Beginning{Kind: "Site", At: time.Now()}, controller.Ending{RequeueAfter: time.Second}

		embeds := embedder{first}
		embeds.End(embeds.Begin(t.Context(), begin), end)
		if got := spans.GetSpans(); len(got) != 1 || got[0].Name != "reconcile Site" {
			t.Errorf("an observer that embeds the Tracer ends %d spans", len(got))
		}

		spans.Reset()
		outer := first.Begin(t.Context(), begin)
		inner := second.Begin(outer, begin)
		second.End(inner, end)
		if got := spans.GetSpans(); len(got) != 0 {
			t.Errorf("the other tracer ended %d spans", len(got))
		}
		first.End(outer, end)
		if got := spans.GetSpans(); len(got) != 1 {
			t.Errorf("%d spans ended", len(got))
		}
		must(t, provider.Shutdown(t.Context()))
	})
}
