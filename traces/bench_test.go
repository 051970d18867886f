package traces

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// BenchmarkReconcile measures what the span of a reconcile without a cause costs, if the sampler wants it and if not.
// The second is what most reconciles cost.
func BenchmarkReconcile(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{
		"recorded": sdktrace.AlwaysSample(), "dropped": sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0)),
	} {
		b.Run(name, func(b *testing.B) {
			tracer := New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)))
			begin := controller.Beginning{
				Controller: "sites", Kind: "Site", Key: "home", Operations: controller.Operations(1), Attempt: 1,
				Waited: time.Millisecond,
			}
			end := controller.Ending{Key: "home", Operations: begin.Operations, Attempt: 1, Took: time.Millisecond}
			b.ReportAllocs()
			for b.Loop() {
				tracer.End(tracer.Begin(context.Background(), begin), end)
			}
		})
	}
}
