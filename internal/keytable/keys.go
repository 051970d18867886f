package keytable

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is what is remembered of one key beside the queue. Most keys have none: it says what is unusual about a key.
type State struct {
	// Failures counts the attempts, and the steps of a teardown, that failed in a row; recordFailures the writes of
	// the key's record; refusals the statuses that its record could not take. Each count has its own backoff.
	Failures, RecordFailures, Refusals int
	// Parked is set after a terminal error, until the primary changes.
	Parked *Parked
	// Deleted is the delete of the primary, as this process observed it, until the teardown is over.
	Deleted *ObservedDelete
	// DeletedAnchor is an anchor that somebody deleted by hand, until it is written again. A key that is reconciled
	// gets its anchor anyway; one that is suspended, invalid or parked would not, and its delete would be lost.
	DeletedAnchor *entity.Record
	// NewlyDecodable is set from when the document decodes again until its event comes, which predicates must not
	// hold back.
	NewlyDecodable bool
	// CleanUp is set when the reconciler of the delete has succeeded and the rest of the teardown goes on.
	CleanUp *CleanUp
	// Unanswered is set when an attempt failed because a Kubernetes API server did not answer.
	Unanswered *Unanswered
	// writes are what the last reconcile wrote, until the caches show it; awaitsWrites is since when the next one
	// waits for it.
	writes       *ownwrites.Log
	awaitsWrites time.Time
}

// Parked is the state of the primary that could not be reconciled; any other state deserves another attempt. It holds
// the object and not the revision: in a stream that was recreated another document may have the same revision.
type Parked struct {
	Presence source.Presence
	Object   metav1.Object
}

// Unanswered names the API server that did not answer; none if the error does not tell.
type Unanswered struct{ Server kubeerrors.Server }

// manyKeys is from how many keys on a map is given up once it is empty: a map never shrinks.
const manyKeys = 10_000

// Table holds the keyState of the keys that have one. It is made for being empty: then nobody locks. A state that
// becomes zero is dropped. All methods may be called concurrently.
type Table struct {
	size atomic.Int64

	mu              sync.Mutex
	byKey           map[string]*State
	most            int // keys since the map was made
	failing, parked int
	writing         int         // keys that have writes
	wrote           []keyWrites // those to look at whether the caches show them, the oldest first
}

// Of returns a copy of what is remembered of a key.
func (k *Table) Of(key string) State {
	if k.size.Load() == 0 {
		return State{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.byKey[key]; s != nil {
		return *s
	}
	return State{}
}

// Change lets f change what is remembered of a key, and begins to remember it.
func (k *Table) Change(key string, f func(*State)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.byKey[key]
	if s == nil {
		s = &State{}
	}
	k.applyLocked(key, s, f)
}

// Amend is change for a key of which something is remembered; of any other it does nothing.
func (k *Table) Amend(key string, f func(*State)) {
	if k.size.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.byKey[key]; s != nil {
		k.applyLocked(key, s, f)
	}
}

// Forget forgets everything about a key.
func (k *Table) Forget(key string) { k.Amend(key, func(s *State) { *s = State{} }) }

// ResetFailures forgets the failed attempts of a key: one succeeded, or the primary changed.
func (k *Table) ResetFailures(key string) { k.Amend(key, func(s *State) { s.Failures = 0 }) }

func (k *Table) applyLocked(key string, s *State, f func(*State)) {
	k.tallyLocked(s, -1)
	f(s)
	k.tallyLocked(s, 1)
	if *s == (State{}) {
		delete(k.byKey, key)
	} else {
		if k.byKey == nil {
			k.byKey = map[string]*State{}
		}
		k.byKey[key] = s
	}
	k.most = max(k.most, len(k.byKey))
	if len(k.byKey) == 0 && k.most > manyKeys {
		k.byKey, k.most = nil, 0
	}
	k.size.Store(int64(len(k.byKey)))
}

func (k *Table) tallyLocked(s *State, by int) {
	if s.Failures > 0 {
		k.failing += by
	}
	if s.Parked != nil {
		k.parked += by
	}
	if s.writes != nil {
		k.writing += by
	}
}

// Len returns of how many keys anything is remembered.
func (k *Table) Len() int { return int(k.size.Load()) }

// Counts returns how many keys failed in their last attempt, and how many are parked.
func (k *Table) Counts() (failing, parked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failing, k.parked
}

// Where lists the keys of whose state f is true, in no order.
func (k *Table) Where(f func(*State) bool) (keys []string) {
	if k.size.Load() == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, s := range k.byKey {
		if f(s) {
			keys = append(keys, key)
		}
	}
	return keys
}

// StaysParked tells whether a key with this state is not tried again now; else it is parked no longer. One worker at
// a time asks about a key.
func (k *Table) StaysParked(key string, v source.View, ops operation.Operations) bool {
	parked := k.Of(key).Parked
	if parked == nil {
		return false
	}
	if *parked == (Parked{v.Presence, v.Object}) && !ops.WakesParked() {
		return true
	}
	k.Amend(key, func(s *State) { s.Parked = nil })
	return false
}

// NoteNewlyDecodable notes that the next event of a key is the first since its document decodes again.
func (k *Table) NoteNewlyDecodable(key string) {
	k.Change(key, func(s *State) { s.NewlyDecodable = true })
}

// TakeNewlyDecodable tells, once, that the document did not decode before this event.
func (k *Table) TakeNewlyDecodable(key string) (was bool) {
	k.Amend(key, func(s *State) { was, s.NewlyDecodable = s.NewlyDecodable, false })
	return was
}

// ObserveDelete remembers a delete. What is known better stays: of a document that did not decode and is gone nobody
// said how.
func (k *Table) ObserveDelete(key string, deleted ObservedDelete) {
	k.Change(key, func(s *State) {
		if s.Deleted == nil || !deleted.Resolved {
			s.Deleted = &deleted
		}
	})
}

// ForgetDelete is for a key that exists again, or was torn down.
func (k *Table) ForgetDelete(key string) { k.Amend(key, func(s *State) { s.Deleted = nil }) }

// NoteDeletedAnchor remembers an anchor that somebody deleted; nil forgets it.
func (k *Table) NoteDeletedAnchor(key string, anchor *entity.Record) {
	if anchor == nil {
		k.Amend(key, func(s *State) { s.DeletedAnchor = nil })
		return
	}
	k.Change(key, func(s *State) { s.DeletedAnchor = anchor })
}
