package traces

import (
	"context"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/foreign"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of the spans.
const (
	attrController = attribute.Key("nagi.controller")
	attrKind       = attribute.Key("nagi.kind")
	attrKey        = attribute.Key("nagi.key")
	attrBucket     = attribute.Key("nagi.bucket")
	attrRevision   = attribute.Key("nagi.revision")
	attrOperations = attribute.Key("nagi.operations")
	attrAttempt    = attribute.Key("nagi.attempt")
	attrWait       = attribute.Key("nagi.queue_wait_seconds")
	attrCauses     = attribute.Key("nagi.causes")
	attrOutcome    = attribute.Key("nagi.outcome")
	attrRequeue    = attribute.Key("nagi.requeue_after_seconds")
	attrName       = attribute.Key("nagi.name")
)

// Begin implements controller.Observer. It starts the span of a reconcile.
func (t *Tracer) Begin(ctx context.Context, b controller.Beginning) context.Context {
	links, newest := linksTo(b.Causes)
	opts := make([]trace.SpanStartOption, 0, 4)
	opts = append(opts, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...), trace.WithAttributes(
		attrController.String(b.Controller), attrKind.String(b.Kind), attrKey.String(foreign.Text(b.Key)),
		attrOperations.String(b.Operations.String()), attrAttempt.Int(b.Attempt), attrWait.Float64(b.Waited.Seconds()),
		attrCauses.Int(len(b.Causes)+b.MoreCauses),
	))
	parent := t.parentIn(newest)
	if parent.HasTraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		opts = append(opts, trace.WithNewRoot()) // and not in a span around Controller.Run
	}
	ctx, _ = t.tracer.Start(ctx, "reconcile "+b.Kind, opts...)
	return ctx
}

// linksTo returns a link for each write whose headers are valid, and the newest of these.
func linksTo(causes []controller.Cause) (links []trace.Link, newest trace.SpanContext) {
	for _, c := range causes {
		of := read(c)
		if !of.IsValid() {
			continue
		}
		newest = of
		links = append(links, trace.Link{SpanContext: of, Attributes: []attribute.KeyValue{
			attrBucket.String(c.Bucket), attrKey.String(foreign.Text(c.Key)), attrRevision.Int64(int64(c.Revision)),
		}})
	}
	return links, newest
}

// End implements controller.Observer. It ends the span.
func (t *Tracer) End(ctx context.Context, e controller.Ending) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attrOutcome.String(outcomeOf(e)))
	if e.RequeueAfter > 0 {
		span.SetAttributes(attrRequeue.Float64(e.RequeueAfter.Seconds()))
	}
	if e.Err != nil && e.Waits {
		span.AddEvent("waits", trace.WithAttributes(attribute.String("message", text(e.Err))))
	} else if e.Err != nil {
		failed(span, e.Err)
	}
	span.End()
}

func outcomeOf(e controller.Ending) string {
	switch {
	case e.Waits:
		return "waits"
	case e.Panicked:
		return "panicked"
	case e.Terminal:
		return "terminal"
	case e.Err != nil:
		return "failed"
	case e.RequeueAfter > 0:
		return "requeued"
	}
	return "succeeded"
}
