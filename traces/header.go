package traces

import (
	"context"
	"strconv"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The headers of W3C Trace Context. NATS headers have no other case.
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
	longestState = 512
)

// hopsMember is the member of tracestate that counts the reconciles of a trace, one caused by the other.
const (
	hopsMember = "nagi"
	mostHops   = 32
)

// headerOf returns the headers for a message that is sent in a context.
func headerOf(ctx context.Context) nats.Header {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	header := nats.Header{}
	for _, name := range [...]string{parentHeader, stateHeader} {
		if value := carrier[name]; value != "" && len(value) <= longestState {
			header[name] = []string{value}
		}
	}
	return header
}

// read returns what the headers of a write say; a span context that is not valid if they are not.
func read(c controller.Cause) trace.SpanContext {
	carrier := propagation.MapCarrier{parentHeader: c.TraceParent, stateHeader: c.TraceState}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// parentIn returns the parent of a reconcile that the newest write caused; without a trace id if there is to be none.
func (t *Tracer) parentIn(newest trace.SpanContext) trace.SpanContext {
	if t.mode == separate || !newest.IsValid() {
		return trace.SpanContext{}
	}
	hops, _ := strconv.Atoi(newest.TraceState().Get(hopsMember))
	if hops >= mostHops {
		return trace.SpanContext{}
	}
	state, err := newest.TraceState().Insert(hopsMember, strconv.Itoa(max(hops, 0)+1))
	if err != nil { // cannot be: the name is valid, and so is the number
		state = trace.TraceState{}
	}
	if t.mode == trusted {
		return newest.WithTraceState(state)
	}
	// Without the id of a span it is no parent to samplers, which decide as for a root, but its trace goes on.
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: newest.TraceID(), TraceState: state, Remote: true})
}
