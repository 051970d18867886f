package traces

import (
	"net/http"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/controller"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/nagi-runtime/nagi/traces"

// Tracer makes the spans of clients, controllers and drivers. One serves a whole process. Its methods may be called
// concurrently.
type Tracer struct {
	tracer   trace.Tracer
	uncaused *perSecond
	mode     mode
	open     atomic.Int64 // spans of reconciles
}

var (
	_ controller.CauseTaker  = (*Tracer)(nil)
	_ controller.RunObserver = (*Tracer)(nil)
)

// mode is what becomes of the trace of the newest write.
type mode uint8

const (
	separate  mode = iota // the reconcile has another trace
	continued             // the reconcile is in it, and the sampler decides as for a root
	trusted               // the reconcile is a child of the write
)

// Option changes how a Tracer works.
type Option func(*Tracer)

// ContinueTraces makes a reconcile go on with the trace of the newest write that caused it, so that one trace shows
// what a put has caused, to the last effect. The sampler decides as for a span without a parent, and does not see
// whether the header of the write says that it was sampled. But a sampler that looks at trace ids, such as
// TraceIDRatioBased, decides what the id says, and who writes a document chooses the id: use it where those who may
// write the documents may also say what is sampled, or where the sampler does not look at ids.
func ContinueTraces() Option { return func(t *Tracer) { t.mode = continued } }

// TrustHeaders makes a reconcile a child of the newest write that caused it, and lets the sampler see whether the
// header of that write says that it was sampled. Use it where those who may write the documents may also say what is
// sampled.
// To have the children and decide about sampling all the same, give the SDK's ParentBased sampler its options
// WithRemoteParentSampled and WithRemoteParentNotSampled.
func TrustHeaders() Option { return func(t *Tracer) { t.mode = trusted } }

// New makes a Tracer whose spans go to the provider; nil is the global one of package otel. Who made the provider
// flushes and stops it, after the controllers have stopped. Without an option each reconcile begins a trace of its own,
// which is linked to the writes that caused it.
func New(provider trace.TracerProvider, opts ...Option) *Tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := &Tracer{tracer: provider.Tracer(scope)}
	UncausedPerSecond(uncausedPerSecond)(t)
	for _, opt := range opts {
		opt(t)
	}
	return t
}

// TakesCauses implements controller.CauseTaker.
func (*Tracer) TakesCauses() bool { return true }

// InTrace reports whether a request is made within a trace, as those of a reconcile are and those of informers are not.
// It is a filter for otelhttp.
func InTrace(r *http.Request) bool { return trace.SpanContextFromContext(r.Context()).IsValid() }
