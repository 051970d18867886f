package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observer hears of the primaries' documents and records, and remembers what is unusual about them. It implements
// source.Listener.
type observer struct{ *Engine }

// Added implements source.Listener.
func (o observer) Added(key string, initial bool, passes func() bool) {
	o.noteExists(key)
	if !o.keys.TakeNewlyDecodable(key) && !passes() {
		return
	}
	prio := queue.Live
	if initial {
		prio = queue.Background
	} else {
		o.keys.ResetFailures(key)
	}
	o.Notice(key, operation.Of(operation.Put), prio)
}

func (o observer) noteExists(key string) {
	o.keys.ForgetDelete(key)
	o.hashes.Note(key, true)
	if o.brake != nil {
		o.brake.Forget(key) // also where a predicate keeps the key from the queue
	}
}

// Changed implements source.Listener.
func (o observer) Changed(key string, passes func() bool) {
	if !o.keys.TakeNewlyDecodable(key) && !passes() {
		return
	}
	o.keys.ResetFailures(key)
	o.Notice(key, operation.Of(operation.Put), queue.Live)
}

// Deleted remembers what vanished and how. Predicates decide only about the hurry, because a teardown is owed anyway.
func (o observer) Deleted(key string, last metav1.Object, deletion natsinformer.Deletion, passes func() bool) {
	o.hashes.Note(key, false)
	o.keys.Change(key, func(s *keytable.State) {
		s.NewlyDecodable, s.DeletedAnchor, s.Failures = false, nil, 0
		s.Deleted = &keytable.ObservedDelete{
			Object: last, Evidenced: deletion.Evidenced,
			Expired: deletion.Reason == natsinformer.ExpiryMarker && !deletion.Evidenced,
		}
	})
	op := operation.Delete
	if deletion.Reason == natsinformer.PurgeMarker {
		op = operation.Purge
	}
	if o.records == nil && !passes() {
		o.keys.ForgetDelete(key)
		return
	}
	if !o.Notice(key, operation.Of(op), queue.Live) && !record.IsAnchor(o.anchors.Cached(key)) {
		o.keys.ForgetDelete(key) // torn down by the replica that leads, before we heard of the delete
	}
}

// Undecodable implements source.Listener: the record's condition says so, and nothing is reconciled.
func (o observer) Undecodable(ctx context.Context, key string, err error) {
	if !o.WellFormed(key) {
		o.stats.Malformed.Add(1)
		o.reports.Log(ctx, err, "Malformed key, ignored until it is renamed", key)
		return
	}
	o.stats.Invalid.Add(1)
	o.noteExists(key)
	o.reports.Log(ctx, err, "Invalid document, not reconciled until it is mended", key)
	o.queue.Add(key, operation.Of(operation.Put), queue.Background) // many of them must not delay what is valid
}

// Decodable implements source.Listener.
func (o observer) Decodable(key string, exists bool) {
	if o.reports.Mended(key); !o.WellFormed(key) {
		return
	}
	if exists {
		o.keys.NoteNewlyDecodable(key)
	} else if o.anchors != nil && record.IsAnchor(o.anchors.Cached(key)) {
		o.keys.ObserveDelete(key, keytable.ObservedDelete{WasInvalid: true})
	}
	o.Notice(key, operation.Of(operation.Put), queue.Live)
}

// RecordDeleted implements source.Listener.
func (o observer) RecordDeleted(key string, exists bool, deleted any) {
	if exists {
		// Deleted by hand: without it a delete of the primary while we are down would be lost.
		if lost, _, ok := entity.RecordOf(deleted); ok && record.IsAnchor(lost) {
			o.keys.NoteDeletedAnchor(key, lost)
		}
		o.Notice(key, operation.Of(operation.Resync), queue.Secondary)
		return
	}
	if o.keys.Of(key).Failures > 0 || o.brake.Holds(key) { // somebody has mended what could not go on
		o.Notice(key, operation.Of(operation.Resync), queue.Secondary)
	}
	// Torn down, by the replica that leads or by us. Our worker forgets the key itself when it has reported the end;
	// but not if its term is over and another replica finished what it began.
	if !o.Leads() || !o.queue.Running(key) {
		o.keys.Amend(key, func(s *keytable.State) { s.Deleted, s.DeletedAnchor = nil, nil })
	}
}

// RecordReadable implements source.Listener.
func (o observer) RecordReadable(key string) {
	o.Notice(key, operation.Of(operation.Resync), queue.Secondary)
}

// Reserved implements source.Listener.
func (o observer) Reserved(name string, value []byte) {
	if name == record.KeyRelease && value != nil && o.brake != nil {
		o.brake.ReleaseRequested()
	}
	if o.garbled != nil {
		o.garbled.Seen(context.Background(), name, value)
	}
	if o.claim != nil && value == nil {
		o.claim.Removed(name)
	} else if o.claim != nil {
		o.claim.Put(name)
	}
	if name == record.KeyLease && value == nil {
		select {
		case o.leaseRemoved <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// WellFormed tells whether the bucket can have such a key. Of one that it cannot have nothing can be read or written,
// so trying again would never end.
func (e *Engine) WellFormed(key string) bool {
	return !source.IsReserved(key) && e.primary.CheckKey(key) == nil
}
