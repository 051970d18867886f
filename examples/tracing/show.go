package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// show prints the trace of the customer as a tree, with when each span began and how long it took.
func show(out io.Writer, spans tracetest.SpanStubs) error {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	root := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == "a customer orders" })
	if root < 0 {
		return errors.New("the span of the customer is missing")
	}
	began, trace := spans[root].StartTime, spans[root].SpanContext.TraceID()
	shown := 0
	var draw func(s tracetest.SpanStub, depth int)
	draw = func(s tracetest.SpanStub, depth int) {
		shown++
		line := strings.Repeat("  ", depth) + s.Name + attempt(s)
		fmt.Fprintf(out, "%-64s +%6.1f ms  %6.1f ms\n", line,
			ms(s.StartTime.Sub(began)), ms(s.EndTime.Sub(s.StartTime)))
		for _, child := range spans {
			if child.Parent.SpanID() == s.SpanContext.SpanID() {
				draw(child, depth+1)
			}
		}
	}
	draw(spans[root], 0)
	reached := slices.ContainsFunc(spans, func(s tracetest.SpanStub) bool {
		return s.Name == "apply Disk" && s.SpanContext.TraceID() == trace
	})
	if !reached {
		return errors.New("the trace does not reach the call of the API")
	}
	fmt.Fprintf(out, "\nOne trace: %d spans from the put to the disk.\n", shown)
	return nil
}

// attempt says why a reconcile ran and what came of it.
func attempt(s tracetest.SpanStub) string {
	var why, outcome string
	for _, a := range s.Attributes {
		switch a.Key {
		case "nagi.operations":
			why = a.Value.AsString()
		case "nagi.outcome":
			outcome = a.Value.AsString()
		}
	}
	if outcome == "" {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", why, outcome)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
