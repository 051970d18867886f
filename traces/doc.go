// Package traces follows what a write causes through controllers, with OpenTelemetry: from the put of a user to the
// reconcile that it caused, what that wrote, the reconciles which that caused in turn, and so on to the last effect.
// Each reconcile is a trace of its own that is linked to what caused it; with [ContinueTraces] or [TrustHeaders] all of
// it is one trace.
//
//	tracer := traces.New(provider)
//	client, err := entity.NewClient[*Site](ctx, js, entity.Config{
//		Kind: "Site", Bucket: "sites", OnWrite: tracer.OnWrite,
//	})
//	c, err := controller.New("sites", client, reconciler, controller.WithObserver(tracer))
//
// # Writes
//
// A client with OnWrite makes a span of each message that it sends for a caller whose context is in a trace, and the
// message carries W3C traceparent and tracestate in its header. A call without a trace gets neither. Any client in any
// language may write the same headers, in lower case; clients other than Nagi's need nothing else.
//
// # Reconciles
//
// An observer makes a span of each reconcile. It is linked to the writes that made the key due: those of the document,
// of secondaries and what is watched, and of their statuses. The newest 16 are linked; nagi.causes counts all. An
// attempt that failed hands its causes on to the next, nine times at most. What the reconcile writes is in its span,
// and so are its record and what a teardown deletes.
//
// The reconcile of a write that a controller finds when it starts, or takes the lease, is not linked: the cause of that
// reconcile is the start.
//
// Reconciles that no traced write caused begin a trace too, 100 in a second at most; see [UncausedPerSecond]. The
// others have no span, and cost next to nothing. Asking the SDK whether a span is wanted costs half of what an engine
// takes for a reconcile that does nothing; of one that writes it is little. make bench measures both.
//
// # Whose traces, and who samples
//
// Who may write a document may write its headers, and so choose a trace id. So they are bounded, read strictly
// (anything else counts as none), and by default they say nothing of what is sampled. There are three ways; all of them
// link:
//
//   - By default each reconcile begins a trace of its own, and nothing in a header has any effect but the link.
//   - With [ContinueTraces] a reconcile goes on with the trace of the newest write, but the sampler of the provider
//     decides as for a span without a parent. So the sampled flag of the header has no effect. The span has a link and
//     no parent. A sampler that looks at trace ids, such as TraceIDRatioBased, decides alike in all controllers, so
//     that a trace is whole; but a writer who chooses the id can choose one that it takes.
//   - With [TrustHeaders] a reconcile is a child of the newest write, and the sampler sees the flag of the header. A
//     sampler that is ParentBased, as is the default of the SDK, then does what the flag says.
//
// A trace that has passed through 32 reconciles, one caused by the other, is not continued by either option: the next
// reconcile begins another one and is linked. So two controllers that wake each other make no trace without an end. The
// count is the member nagi of tracestate.
//
// A NATS server whose account has a destination for message traces (msg_trace) makes traces of its own of a message
// with a sampled traceparent. That is a setting of the account, and off by default.
//
// # Kubernetes and other APIs
//
// Handles of package kube hand the context of the reconcile to client-go, so the instrumentation of the transport is
// enough. [InTrace] leaves away what belongs to no reconcile, such as the watches of informers:
//
//	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
//		return otelhttp.NewTransport(base, otelhttp.WithTracerProvider(provider), otelhttp.WithFilter(traces.InTrace))
//	})
//
// [Driver] makes spans of the calls of an external driver; its HTTP client can be instrumented in the same way.
//
// Of a reconcile or a write a sampler sees the name of the span, which has the kind, and the links. The attributes are
// added to spans that are recorded: in most systems most are not.
//
// # What a span shows
//
// Names of kinds, buckets and controllers, keys, numbers, and the text of errors; what others wrote is escaped and
// bounded. Values of documents are shown only if an error of the reconciler has them, and then they are in the record,
// too.
package traces
