package traces

import (
	"context"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/printable"
	"go.opentelemetry.io/otel/trace"
)

// Driver returns a driver that makes a span of each call of d within a trace, and hands it on in the context. It has a
// Poll if d has one.
func Driver[Desired, Observed any](
	t *Tracer, d external.Driver[Desired, Observed],
) external.Driver[Desired, Observed] {
	traced := &driver[Desired, Observed]{Driver: d, tracer: t}
	if poller, polls := d.(external.Poller); polls {
		return &pollingDriver[Desired, Observed]{traced, poller}
	}
	return traced
}

type driver[Desired, Observed any] struct {
	external.Driver[Desired, Observed]
	tracer *Tracer
}

func (d *driver[Desired, Observed]) begin(
	ctx context.Context, what string, target external.Target,
) (context.Context, func(error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(error) {}
	}
	ctx, span := d.tracer.tracer.Start(ctx, what+" "+d.Kind(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attrKind.String(d.Kind()), attrKey.String(printable.Text(target.Owner.Key)),
			attrName.String(printable.Text(target.Name)),
		))
	return ctx, func(err error) { end(span, err) }
}

// Observe implements external.Driver.
func (d *driver[Desired, Observed]) Observe(
	ctx context.Context, target external.Target,
) (o external.Observation[Observed], err error) {
	ctx, done := d.begin(ctx, "observe", target)
	defer func() { done(err) }()
	return d.Driver.Observe(ctx, target)
}

// Apply implements external.Driver.
func (d *driver[Desired, Observed]) Apply(
	ctx context.Context, request external.ApplyRequest[Desired, Observed],
) (o external.Outcome, err error) {
	ctx, done := d.begin(ctx, "apply", request.Target)
	defer func() { done(err) }()
	return d.Driver.Apply(ctx, request)
}

// Delete implements external.Driver.
func (d *driver[Desired, Observed]) Delete(
	ctx context.Context, request external.DeleteRequest[Observed],
) (o external.Outcome, err error) {
	ctx, done := d.begin(ctx, "delete", request.Target)
	defer func() { done(err) }()
	return d.Driver.Delete(ctx, request)
}

type pollingDriver[Desired, Observed any] struct {
	*driver[Desired, Observed]
	poller external.Poller
}

// Poll implements external.Poller.
func (d *pollingDriver[Desired, Observed]) Poll(
	ctx context.Context, target external.Target, operation string,
) (p external.Progress, err error) {
	ctx, done := d.begin(ctx, "poll", target)
	defer func() { done(err) }()
	return d.poller.Poll(ctx, target, operation)
}
