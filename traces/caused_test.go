package traces_test

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/traces"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOnlyCausedMakesSpansOfWhatTracedWritesCause, and of nothing else: also not of what a reconcile without a span
// writes, and not in a span around Controller.Run.
func TestOnlyCausedMakesSpansOfWhatTracedWritesCause(t *testing.T) {
	w := newWorld(t, sdktrace.AlwaysSample(), traces.OnlyCaused())
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
	eventually(t, "it leads", func() bool { return c.Stats().Leading })

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
		if s.Name != "put Site record" { // the record before the first reconcile is written in the span around Run
			t.Errorf("span %q of a put without a trace", s.Name)
		}
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
}
