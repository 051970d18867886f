package traces

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// BenchmarkReconcile measures what a reconcile costs that no traced write caused: if the sampler wants its span, if it
// does not, and if the sampler is not asked, which is what most of them cost.
func BenchmarkReconcile(b *testing.B) {
	for _, c := range []struct {
		name      string
		sampler   sdktrace.Sampler
		perSecond int
	}{
		{"recorded", sdktrace.AlwaysSample(), -1},
		{"dropped", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0)), -1},
		{"one too many", sdktrace.AlwaysSample(), 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(c.sampler))
			tracer := New(provider, UncausedPerSecond(c.perSecond))
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
