//go:build !race

package traces

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// TestAllocationsOfAReconcileThatIsNotRecorded: what the SDK needs to tell whether it is, and no attributes.
func TestAllocationsOfAReconcileThatIsNotRecorded(t *testing.T) {
	tracer := New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())), UncausedPerSecond(-1))
	begin := controller.Beginning{Controller: "sites", Kind: "Site", Key: "home", Attempt: 1}
	got := testing.AllocsPerRun(1000, func() {
		tracer.End(tracer.Begin(context.Background(), begin), controller.Ending{Key: "home", Attempt: 1})
	})
	if got > 4 {
		t.Errorf("%v allocations, want no more than the name of the span, the span and its context", got)
	}
}
