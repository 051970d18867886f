package engine

import (
	"context"
	"testing"
	"time"
)

// idle is an observer that does nothing.
type idle struct{ _ int }

func (*idle) Begin(ctx context.Context, _ Beginning) context.Context { return ctx }
func (*idle) End(context.Context, Ending)                            {}

// BenchmarkObservers measures what it costs to tell observers of a reconcile.
func BenchmarkObservers(b *testing.B) {
	for name, all := range map[string]AttemptObservers{"none": nil, "one": {&idle{}}, "two": {&idle{}, &idle{}}} {
		b.Run(name, func(b *testing.B) {
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				var o ObservedAttempt
				all.Begin(b.Context(), &o, Beginning{Controller: "sites", Key: "home", At: now})
				o.End(&Ending{Key: "home"})
			}
		})
	}
}
