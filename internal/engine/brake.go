package engine

import (
	"context"
	"iter"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/queue"
)

func (e *Engine) newBrake() *brake.Brake {
	return brake.New(brake.Config{
		Primaries:   brakePrimaries{e},
		Anchors:     brake.RecordAnchors{Records: e.records},
		Secondaries: e.teardown.StampsOfMissing,
		Marked:      e.teardown.Marked,
		Bucket:      e.reserved,
		Window:      e.opts.BrakeWindow,
		Enqueue:     e.queue.Add,
		Backlog:     func() bool { return e.queue.Counts().Ready[queue.Background] > 0 },
		Tell:        e.brakeChanged,
		Board:       e.health,
	})
}

// brakeChanged tells the counters, the user's callback and the event recorder that the brake engaged or went off.
func (e *Engine) brakeChanged(ctx context.Context, state brake.State, message string) {
	eventType, reason := eventNormal, "BrakeReleased"
	if state.Engaged {
		eventType, reason = eventWarning, "BrakeEngaged"
		e.stats.BrakeEngaged.Add(1)
	}
	if f := e.opts.OnBrake; f != nil {
		e.callback(ctx, "WithOnBrake", func() { f(state) })
	}
	e.event(e.self(), eventType, reason, message)
}

// brakePrimaries implements brake.Primaries.
type brakePrimaries struct{ engine *Engine }

func (p brakePrimaries) Exists(key string) bool { return p.engine.primary.Exists(key) }

func (p brakePrimaries) Evidenced(key string) bool {
	deleted := p.engine.keys.Of(key).Deleted
	return deleted != nil && deleted.Evidenced
}

func (p brakePrimaries) Expired(key string) bool {
	deleted := p.engine.keys.Of(key).Deleted
	return deleted != nil && deleted.Expired
}

func (p brakePrimaries) Revisions() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, key := range p.engine.primary.Keys() {
			if !yield(p.engine.primary.View(key).Revision) {
				return
			}
		}
	}
}

func (p brakePrimaries) Stream() brake.Stream { return brake.Stream(p.engine.primary.Stream()) }

func (p brakePrimaries) Await(ctx context.Context, sequence uint64) error {
	return p.engine.primary.Await(ctx, sequence)
}
