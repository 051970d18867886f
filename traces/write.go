package traces

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
)

// OnWrite is for entity.Config.OnWrite. It makes a span of a message that is written in a trace, and the message
// carries that span in its header.
func (t *Tracer) OnWrite(ctx context.Context, w entity.Write) (nats.Header, func(error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil, nil
	}
	name := w.Operation + " " + w.Kind
	if w.Record {
		name += " record"
	}
	ctx, span := t.tracer.Start(ctx, name, written...)
	if span.IsRecording() {
		span.SetAttributes(attrKind.String(w.Kind), attrBucket.String(w.Bucket), attrKey.String(printable.Text(w.Key)))
	}
	return headerOf(ctx), func(err error) { end(span, err) }
}

// written are the options of each span of a write.
var written = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}
