// The handler of documents of primaries and of their records. It remembers what is unusual about them.
//
// The rule: what was seen is noted before the key is made due, so that a worker finds it. Nothing here reconciles.

package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// primaryHandlerHost is the engine that is told which keys are due.
type primaryHandlerHost interface {
	source.Enqueuer
	// WellFormed tells whether the bucket can have such a key.
	WellFormed(key string) bool
	// RecordWent is told of a record that was deleted, if that was seen.
	RecordWent(key string, deleted any)
	// Anchored is told of a key whose record has come or has changed.
	Anchored(key string)
	// Works reports whether this replica works at a key.
	Works(key string) bool
}

// primaryHandler implements source.Listener. Its fields are set before the sources start.
type primaryHandler struct {
	primaryHandlerHost
	Keys    *keytable.Table
	Hashes  *owner.Hashes // of the primaries
	Queue   *queue.Queue
	Counts  *Counts
	Reports *notify.Reports
	// NoteKey is called for each key whose document or record has changed, if Notes does not say that it does nothing.
	NoteKey func(key string)
	Notes   func() bool
	Shared  bool // WithoutLease: Anchored is to be called, too

	Brake        *brake.Brake // nil without teardown, as are the next
	Anchors      *record.Anchors
	Claim        *record.Claim
	Garbled      *record.Garbled
	LeaseRenewed func()             // the cache of records shows that a replica took or renewed the lease
	LeaseSeen    func(value []byte) // and this is what it wrote
	SlotsSeen    func()             // what says how many slots there are was written, or is gone
	LeaseRemoved chan<- struct{}    // gets an element when the key of the lease was seen to vanish
}

var _ source.Listener = (*primaryHandler)(nil)

// Added implements source.Listener.
func (o *primaryHandler) Added(key string, initial bool, passes func() bool) {
	o.NoteKey(key)
	o.noteExists(key)
	if !o.Keys.TakeNewlyDecodable(key) && !passes() {
		return
	}
	prio := queue.Live
	if initial {
		prio = queue.Background
	} else {
		o.Keys.ResetFailures(key)
	}
	o.Notice(key, operation.Of(operation.Put), prio)
}

func (o *primaryHandler) noteExists(key string) {
	o.Keys.ForgetDelete(key)
	o.Hashes.Note(key, true)
	if o.Brake != nil {
		o.Brake.Forget(key) // also where a predicate keeps the key from the queue
	}
}

// Changed implements source.Listener.
func (o *primaryHandler) Changed(key string, passes func() bool) {
	o.NoteKey(key)
	if !o.Keys.TakeNewlyDecodable(key) && !passes() {
		return
	}
	o.Keys.ResetFailures(key)
	o.Notice(key, operation.Of(operation.Put), queue.Live)
}

// Deleted remembers what vanished and how. Predicates decide only about the hurry, because a teardown is owed anyway.
func (o *primaryHandler) Deleted(key string, last metav1.Object, deletion natsinformer.Deletion, passes func() bool) {
	o.NoteKey(key)
	o.Hashes.Note(key, false)
	o.Keys.Change(key, func(s *keytable.State) {
		s.NewlyDecodable, s.DeletedAnchor, s.Failures, s.Terminals = false, nil, 0, 0
		s.Deleted = &keytable.ObservedDelete{
			Object: last, Evidenced: deletion.Evidenced,
			Expired: deletion.Reason == natsinformer.ExpiryMarker && deletion.Evidenced,
			AgedOut: deletion.Reason == natsinformer.ExpiryMarker && !deletion.Evidenced,
		}
	})
	if o.Brake != nil && !deletion.Evidenced && record.IsAnchor(o.Anchors.Cached(key)) {
		o.Brake.Suspect(key)
	}
	op := operation.Delete
	if deletion.Reason == natsinformer.PurgeMarker {
		op = operation.Purge
	}
	if o.Brake == nil && !passes() {
		o.Keys.ForgetDelete(key)
		return
	}
	if !o.Notice(key, operation.Of(op), queue.Live) && !record.IsAnchor(o.Anchors.Cached(key)) {
		o.Keys.ForgetDelete(key) // torn down by the replica that leads, before we heard of the delete
	}
}

// Undecodable implements source.Listener: the record's condition says so, and nothing is reconciled.
func (o *primaryHandler) Undecodable(ctx context.Context, key string, err error) {
	if !o.WellFormed(key) {
		o.Counts.Malformed.Add(1)
		o.Reports.Log(ctx, err, "Malformed key, ignored until it is renamed", key)
		return
	}
	o.NoteKey(key)
	o.Counts.Invalid.Add(1)
	o.noteExists(key)
	o.Reports.Log(ctx, err, "Invalid document, not reconciled until it is mended", key)
	o.Queue.Add(key, operation.Of(operation.Put), queue.Background) // many of them must not delay what is valid
}

// Decodable implements source.Listener.
func (o *primaryHandler) Decodable(key string, exists bool) {
	if o.Reports.Mended(key); !o.WellFormed(key) {
		return
	}
	o.NoteKey(key)
	if exists {
		o.Keys.NoteNewlyDecodable(key)
	} else if o.Anchors != nil && record.IsAnchor(o.Anchors.Cached(key)) {
		o.Keys.ObserveDelete(key, keytable.ObservedDelete{WasInvalid: true})
	}
	o.Notice(key, operation.Of(operation.Put), queue.Live)
}

// RecordChanged implements source.Listener.
func (o *primaryHandler) RecordChanged(changed any) {
	if !o.Notes() && !o.Shared {
		return
	}
	if key, err := cache.MetaNamespaceKeyFunc(changed); err == nil && !source.IsReserved(key) {
		o.NoteKey(key)
		o.Anchored(key)
	}
}

// RecordDeleted implements source.Listener.
func (o *primaryHandler) RecordDeleted(key string, exists bool, deleted any) {
	o.NoteKey(key)
	o.RecordWent(key, deleted)
	if !exists && !o.Works(key) && o.Brake != nil {
		o.Brake.WentElsewhere(key)
	}
	if exists {
		// Deleted by hand: without it a delete of the primary while we are down would be lost.
		if lost, _, ok := entity.RecordOf(deleted); ok && record.IsAnchor(lost) {
			o.Keys.NoteDeletedAnchor(key, lost)
		}
		o.Notice(key, operation.Of(operation.Resync), queue.Secondary)
		return
	}
	state := o.Keys.Of(key)
	if state.Failures > 0 || state.Parked != nil || o.Brake.Holds(key) { // what could not go on was mended
		o.Notice(key, operation.Of(operation.Resync), queue.Secondary)
	}
	// Torn down, by the replica that leads or by us. Our worker forgets the key itself when it has reported the end;
	// but not if its term is over and another replica finished what it began.
	works := o.Works(key)
	if works && o.Queue.Running(key) || state.Met && o.Notice(key, operation.Of(operation.Delete), queue.Live) {
		return
	}
	if works && !state.Met {
		o.Keys.ForgetTeardown(key)
	} else {
		o.Keys.Forget(key)
	}
}

// RecordReadable implements source.Listener.
func (o *primaryHandler) RecordReadable(key string) {
	o.Notice(key, operation.Of(operation.Resync), queue.Secondary)
}

// Reserved implements source.Listener.
func (o *primaryHandler) Reserved(name string, value []byte) {
	if name == record.KeyRelease && value != nil && o.Brake != nil {
		o.Brake.ReleaseRequested()
	}
	if o.Garbled != nil {
		o.Garbled.Seen(context.Background(), name, value)
	}
	if o.Claim != nil && value == nil {
		o.Claim.Removed(name)
	} else if o.Claim != nil {
		o.Claim.Put(name)
	}
	if name == record.KeyLease && value != nil && lease.HolderOf(value) != "" {
		o.LeaseRenewed()
		o.LeaseSeen(value)
	}
	if name == record.KeyShards {
		o.SlotsSeen()
	}
	if name == record.KeyLease && value == nil {
		select {
		case o.LeaseRemoved <- struct{}{}:
		default: // it will look anyway
		}
	}
}
