package main

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/traces"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// watched is how much somebody who operates a controller wants to see of it.
type watched struct {
	name    string
	metrics bool
	traces  bool
	sampled float64 // the share of traces that is recorded
	all     bool    // also of each reconcile that no traced write caused; else of 100 in a second
}

const (
	watchedNot     = "Nagi, not observed"
	watchedMetrics = "Nagi, metrics"
	watchedTraces  = "Nagi, traces, one in a hundred recorded"
	watchedBoth    = "Nagi, metrics and traces, one in a hundred recorded"
	watchedEach    = "Nagi, metrics and a trace of each reconcile, one in a hundred recorded"
	watchedAll     = "Nagi, metrics and a trace of each reconcile, all recorded"
)

var watches = []watched{
	{name: watchedNot},
	{name: watchedMetrics, metrics: true},
	{name: watchedTraces, traces: true, sampled: 0.01},
	{name: watchedBoth, metrics: true, traces: true, sampled: 0.01},
	{name: watchedEach, metrics: true, traces: true, all: true, sampled: 0.01},
	{name: watchedAll, metrics: true, traces: true, all: true, sampled: 1},
}

// watchedAs returns one of watches; "" is not observed.
func watchedAs(name string) (watched, error) {
	for _, w := range watches {
		if w.name == name {
			return w, nil
		}
	}
	if name == "" {
		return watches[0], nil
	}
	return watched{}, fmt.Errorf("nobody observes a controller as %q", name)
}

// apply gives a controller its observers, and its clients what makes spans of their writes. Spans that are recorded end
// in a processor that drops them: what sending costs is the exporter's, which works beside the controller.
func (w watched) apply(opts []controller.Option, clients ...*entity.Config) []controller.Option {
	if w.metrics {
		opts = append(opts, metrics.New().Controller())
	}
	if w.traces {
		var how []traces.Option
		if w.all {
			how = append(how, traces.UncausedPerSecond(-1))
		}
		tracer := traces.New(sdktrace.NewTracerProvider(
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(w.sampled))),
			sdktrace.WithSpanProcessor(dropped{}),
		), how...)
		opts = append(opts, controller.WithObserver(tracer))
		for _, config := range clients {
			config.OnWrite = tracer.OnWrite
		}
	}
	return opts
}

// dropped is a processor of spans that keeps none.
type dropped struct{}

func (dropped) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (dropped) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error                  { return nil }
func (dropped) ForceFlush(context.Context) error                { return nil }
