package traces

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// OnlyCaused makes spans only of reconciles that a traced write caused, and of what these write. The others, such as
// those of a resync, of a start, or of documents that somebody writes without a trace, have none: a controller with
// many keys then does not begin a trace for each of them, and asks no sampler.
func OnlyCaused() Option { return func(t *Tracer) { t.onlyCaused = true } }

// untraced is the context of a reconcile without a span. A span around Controller.Run is none of its own.
func untraced(ctx context.Context) context.Context {
	if trace.SpanContextFromContext(ctx).HasTraceID() {
		return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	return ctx
}
