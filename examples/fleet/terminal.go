package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// terminal is the exporter of this program: it keeps spans, and shows a trace as a tree. A program of your own takes
// one that sends them somewhere, such as otlptracehttp of OpenTelemetry, and a sampler.
type terminal struct {
	mu     sync.Mutex
	traces map[trace.TraceID]*spans
}

// spans are those of one trace.
type spans struct {
	all   []sdktrace.ReadOnlySpan
	grown time.Time // when the last one came
}

// ExportSpans implements sdktrace.SpanExporter.
func (t *terminal) ExportSpans(_ context.Context, ended []sdktrace.ReadOnlySpan) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.traces == nil {
		t.traces = map[trace.TraceID]*spans{}
	}
	for _, s := range ended {
		id := s.SpanContext().TraceID()
		if t.traces[id] == nil {
			t.traces[id] = &spans{}
		}
		t.traces[id].all = append(t.traces[id].all, s)
		t.traces[id].grown = time.Now()
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (t *terminal) Shutdown(context.Context) error { return nil }

// tree shows a trace. It fails if the trace has not one root, or has no reconcile of one of the kinds.
func (t *terminal) tree(id trace.TraceID, kinds ...string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.traces[id] == nil {
		return "", errors.New("the trace has no spans")
	}
	all := t.traces[id].all
	if roots := rootsOf(all); len(roots) != 1 {
		return "", fmt.Errorf("the trace has %d roots", len(roots)) // a parent has not ended yet, or is missing
	}
	for _, kind := range kinds {
		if !slices.ContainsFunc(all, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == "reconcile "+kind }) {
			return "", fmt.Errorf("the trace does not reach the controller of %ss", strings.ToLower(kind))
		}
	}
	return fmt.Sprintf("One tree of %d spans:\n%s", len(all), draw(all)), nil
}

// quiet takes the traces to which nothing came for a while, and shows them.
func (t *terminal) quiet(since time.Duration) (shown []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.traces {
		if time.Since(s.grown) >= since {
			shown = append(shown, draw(s.all))
			delete(t.traces, id)
		}
	}
	return shown
}

// rootsOf are the spans whose parents are not there.
func rootsOf(all []sdktrace.ReadOnlySpan) (roots []sdktrace.ReadOnlySpan) {
	there := map[trace.SpanID]bool{}
	for _, s := range all {
		there[s.SpanContext().SpanID()] = true
	}
	for _, s := range all {
		if !there[s.Parent().SpanID()] {
			roots = append(roots, s)
		}
	}
	return roots
}

// draw shows spans as trees, with when each one began and how long it took.
func draw(all []sdktrace.ReadOnlySpan) string {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b sdktrace.ReadOnlySpan) int {
		return a.StartTime().Compare(b.StartTime())
	})
	var b strings.Builder
	var add func(s sdktrace.ReadOnlySpan, depth int)
	add = func(s sdktrace.ReadOnlySpan, depth int) {
		line := strings.Repeat("  ", depth) + s.Name() + about(s)
		fmt.Fprintf(&b, "%7.1f ms %6.1f ms  %s\n",
			ms(s.StartTime().Sub(all[0].StartTime())), ms(s.EndTime().Sub(s.StartTime())), line)
		for _, child := range all {
			if child.Parent().SpanID() == s.SpanContext().SpanID() {
				add(child, depth+1)
			}
		}
	}
	for _, root := range rootsOf(all) {
		add(root, 0)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// about says of which key a span is, and of a reconcile why it ran and what came of it.
func about(s sdktrace.ReadOnlySpan) string {
	of := map[string]string{}
	for _, a := range s.Attributes() {
		of[string(a.Key)] = a.Value.AsString()
	}
	text := ""
	if key := of["nagi.key"]; key != "" {
		text = " " + key
	}
	if of["nagi.outcome"] != "" {
		text += fmt.Sprintf(" (%s: %s)", of["nagi.operations"], of["nagi.outcome"])
	}
	return text
}
