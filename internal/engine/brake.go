package engine

import (
	"context"
	"iter"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/record"
)

func (e *Engine) newBrake() *brake.Brake {
	return brake.New(brake.Config{
		Primaries: brakePrimaries{e},
		Anchors:   brakeAnchors{e.records},
		Bucket:    e.reserved,
		Window:    e.opts.BrakeWindow,
		Enqueue:   e.queue.Add,
		Tell:      e.brakeChanged,
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

// brakeAnchors implements brake.Anchors.
type brakeAnchors struct{ records *entity.Records }

func (a brakeAnchors) All() iter.Seq2[string, brake.Anchor] {
	return func(yield func(string, brake.Anchor) bool) {
		for key, held := range a.records.All() {
			if !record.IsAnchor(held) {
				continue
			}
			anchor := brake.Anchor{
				Stream: held.Stream, Document: held.DocumentRevision, Observed: held.ObservedRevision,
			}
			if !yield(key, anchor) {
				return
			}
		}
	}
}

func (a brakeAnchors) Has(key string) bool {
	held, _ := a.records.Cached(key)
	return record.IsAnchor(held)
}
