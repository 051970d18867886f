package traces

import (
	"context"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/printable"
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

// Begin implements controller.Observer. It starts the span of a reconcile. Samplers see its name and its links. All
// else is told only of a span that is recorded: most are not, and then nothing here costs as much as the attributes.
func (t *Tracer) Begin(ctx context.Context, b controller.Beginning) context.Context {
	links, newest := linksTo(b.Causes)
	if len(links) == 0 && !t.uncaused.passes(b.At) {
		return ctx
	}
	opts := started
	if len(links) > 0 {
		opts = append(opts[:len(opts):len(opts)], trace.WithLinks(links...))
	}
	if parent := t.parentIn(newest); parent.HasTraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else if trace.SpanContextFromContext(ctx).HasTraceID() { // that of another observer is no parent
		opts = append(opts[:len(opts):len(opts)], trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, "reconcile "+b.Kind, opts...)
	if span.IsRecording() {
		span.SetAttributes(
			attrController.String(b.Controller), attrKind.String(b.Kind), attrKey.String(printable.Text(b.Key)),
			attrOperations.String(b.Operations.String()), attrAttempt.Int(b.Attempt),
			attrWait.Float64(b.Waited.Seconds()), attrCauses.Int(len(b.Causes)+b.MoreCauses),
		)
	}
	t.open.Add(1)
	return &inSpan{ctx, t, span}
}

// inSpan is the context of a reconcile that has a span of a tracer.
type inSpan struct {
	context.Context
	tracer *Tracer
	span   trace.Span
}

type inSpanKey struct{}

// Value implements context.Context.
func (in *inSpan) Value(key any) any {
	if key == (inSpanKey{}) {
		return in
	}
	return in.Context.Value(key)
}

// spanOf returns the span of a reconcile whose context Begin has returned; nil if it has none. Observers that embed a
// Tracer may hand on a child of that context. While no span is open none is looked for.
func (t *Tracer) spanOf(ctx context.Context) trace.Span {
	in, ok := ctx.(*inSpan)
	if !ok && t.open.Load() > 0 {
		in, _ = ctx.Value(inSpanKey{}).(*inSpan)
	}
	if in == nil || in.tracer != t { // that of another tracer, which this one had for its parent
		return nil
	}
	return in.span
}

// started are the options of each span of a reconcile.
var started = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}

// linksTo returns a link for each write whose headers are valid, and the newest of these.
func linksTo(causes []controller.Cause) (links []trace.Link, newest trace.SpanContext) {
	for _, c := range causes {
		of := read(c)
		if !of.IsValid() {
			continue
		}
		newest = of
		links = append(links, trace.Link{SpanContext: of, Attributes: []attribute.KeyValue{
			attrBucket.String(c.Bucket), attrKey.String(printable.Text(c.Key)), attrRevision.Int64(int64(c.Revision)),
		}})
	}
	return links, newest
}

// End implements controller.Observer. It ends the span, if the reconcile has one.
func (t *Tracer) End(ctx context.Context, e controller.Ending) {
	span := t.spanOf(ctx)
	if span == nil {
		return
	}
	defer t.open.Add(-1)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attrOutcome.String(outcomeOf(e)))
	if e.RequeueAfter > 0 {
		span.SetAttributes(attrRequeue.Float64(e.RequeueAfter.Seconds()))
	}
	if e.CutShort {
		span.AddEvent("cut short", trace.WithAttributes(attribute.String("message", text(e.Err))))
	} else if e.Err != nil && e.Waits {
		span.AddEvent("waits", trace.WithAttributes(attribute.String("message", text(e.Err))))
	} else if e.Err != nil {
		failed(span, e.Err)
	}
}

func outcomeOf(e controller.Ending) string {
	switch {
	case e.CutShort:
		return "cut short"
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
