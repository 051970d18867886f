package traces

import (
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// failed notes an error on a span, as the conventions of OpenTelemetry want it.
func failed(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	message := text(err)
	span.SetStatus(codes.Error, message)
	span.AddEvent("exception", trace.WithAttributes(
		attribute.String("exception.type", fmt.Sprintf("%T", err)), attribute.String("exception.message", message),
	))
}

// text is what an error says, printable and bounded. A panic has no stack, which the log has.
func text(err error) string {
	if panicked, ok := errors.AsType[*guard.Panic](err); ok {
		return printable.Message(panicked.Message())
	}
	return printable.Error(err).Error()
}

// end ends the span of a call.
func end(span trace.Span, err error) {
	if err != nil {
		failed(span, err)
	}
	span.End()
}
