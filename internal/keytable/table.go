// Package keytable remembers what is unusual about a key: its failures, that it is parked, its observed delete, a
// cleanup under way, writes that no cache shows yet.
//
// The rule: one [State] in one map, [Table], and most keys have none. A state that becomes zero is dropped, and
// [Table.Forget] forgets all of it, so no caller has to know the fields by heart to forget a key. The room decides
// nothing: the steps of a key's life ask it and change it.
package keytable

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// State is what is unusual about one key. The zero State says that nothing is.
type State struct {
	// Failures counts the attempts, and the steps of a teardown, that failed in a row. RecordFailures counts the
	// writes of the key's record that failed, Refusals the statuses that its record could not take. Each count has
	// its own backoff.
	Failures, RecordFailures, Refusals int
	// Told is what was told of Failures; it is zero when they are.
	Told notify.Fact
	// Trouble is the last error, while any of the counts above is not 0, and while the key is parked.
	Trouble Trouble
	// Parked is set after a terminal error, until something wakes the key. Terminals counts the terminal errors since
	// the last success and the last change of the primary: the pause of Parked grows with it.
	Parked    *Parked
	Terminals int
	// Awaits is what the key waits for without having failed, from when it began to until it is handed out.
	Awaits Awaits
	// Deleted is the delete of the primary, as this process observed it, until the teardown is over.
	Deleted *ObservedDelete
	// DeletedAnchor is an anchor that was deleted by hand, until it is written again. A reconcile would write it
	// anyway, but a key that is suspended, invalid or parked has none, and its delete would be lost.
	DeletedAnchor *entity.Record
	// WithoutLease alone: Met says that this replica has reconciled the key, and is to be told of its end. AwaitsAnchor
	// says that it waits for the record that the replica which leads writes. RecordWent says that the record was seen
	// to be deleted, until there is one again.
	Met, AwaitsAnchor, RecordWent bool
	// NewlyDecodable is set from when the document decodes again until its event comes. Predicates must not hold that
	// event back.
	NewlyDecodable bool
	// CleanUp is set once the reconciler of the delete has succeeded, while the rest of the teardown goes on.
	CleanUp *CleanUp
	// Owed is set from the first step of a teardown to its end.
	Owed bool
	// ContestedFrom is a revision of the primary. A delete of what it owned before may be under way, here or by an
	// earlier leader; 0: none is.
	ContestedFrom uint64
	// Unanswered is set when an attempt failed because a Kubernetes API server did not answer.
	Unanswered *Unanswered
	// Degraded is set when an attempt, or a write of the record, failed while a source in NATS did not work.
	Degraded bool
	// Loop is set while the key writes in each run, or asks for the next without a pause, and Looping once that is a
	// loop.
	Loop    *loops.Trail
	Looping bool

	// told is what the key's events say of objects that it did not get; see IsNews.
	told *notify.Facts
	// writes are what the last reconcile wrote, until the caches show it. awaitsWrites is when the next reconcile began
	// to wait for that.
	writes       *ownwrites.Log
	awaitsWrites time.Time
}

// Trouble is an error in words that may be shown to everybody who may ask about the key.
type Trouble struct {
	Error string
	Since time.Time // of the first error since all went well
	// AwaitsName says that the key wants a name that another's object has.
	AwaitsName bool
}

// Awaits is the API that a key waits for: it is Away, or the key waits for a turn under its rate limit.
type Awaits struct {
	Kind  string
	Away  bool
	Since time.Time
}

// Unanswered names the API server that did not answer. Server is 0 if the error does not tell.
type Unanswered struct{ Server kubeapi.Server }

// manyKeys is how many keys a map must have held to be replaced once it is empty: a map never shrinks.
const manyKeys = 10_000

// Table holds the State of the keys that have one. The zero Table is ready for use. While it is empty, reads take no
// lock. A State that becomes zero is dropped. All methods may be called concurrently.
type Table struct {
	size, watched, awaited atomic.Int64 // of byKey, watching, and awaiting

	mu              sync.Mutex
	byKey           map[string]*State
	most            int // keys since the map was made
	failing, parked int
	looping         int
	owed            int
	watching        int         // keys that have a Loop
	awaiting        int         // keys that have Awaits
	tidied          time.Time   // the Loops, see Watch
	writing         int         // keys that have writes
	wrote           []keyWrites // those to look at whether the caches show them, the oldest first
}

// Of returns a copy of the State of a key, zero if it has none.
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

// Change lets f change the State of a key, and makes one if the key has none. f runs under the lock.
func (k *Table) Change(key string, f func(*State)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.byKey[key]
	if s == nil {
		s = &State{}
	}
	k.applyLocked(key, s, f)
}

// Amend is Change for a key that has a State. For any other key it does nothing.
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

// Forget drops the State of a key.
func (k *Table) Forget(key string) { k.Amend(key, func(s *State) { *s = State{} }) }

// ForgetButMet drops the State of a key, but not whether this replica has reconciled it, WithoutLease. The caches show
// the delete of a record before its event comes, which alone says that the key has ended.
func (k *Table) ForgetButMet(key string) {
	k.Amend(key, func(s *State) { *s = State{Met: s.Met, RecordWent: s.RecordWent} })
}

// ForgetWork drops what attempts at a key came to: another replica works at it. What events told stays.
func (k *Table) ForgetWork(key string) {
	k.Amend(key, func(s *State) {
		*s = State{Deleted: s.Deleted, DeletedAnchor: s.DeletedAnchor, NewlyDecodable: s.NewlyDecodable}
	})
}

// ResetFailures forgets the failed attempts of a key: one succeeded, or the primary changed.
func (k *Table) ResetFailures(key string) {
	k.Amend(key, func(s *State) { s.Failures, s.Terminals, s.told = 0, 0, nil })
}

func (k *Table) applyLocked(key string, s *State, f func(*State)) {
	k.tallyLocked(s, -1)
	f(s)
	if s.Failures == 0 {
		s.Told = notify.Fact{}
		if s.RecordFailures+s.Refusals == 0 && s.Parked == nil {
			s.Trouble = Trouble{}
		}
	}
	s.Degraded = s.Degraded && s.Failures+s.RecordFailures > 0
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
	k.watched.Store(int64(k.watching))
	k.awaited.Store(int64(k.awaiting))
}

func (k *Table) tallyLocked(s *State, by int) {
	if s.Failures > 0 {
		k.failing += by
	}
	if s.Parked != nil {
		k.parked += by
	}
	if s.Owed {
		k.owed += by
	}
	if s.Loop != nil {
		k.watching += by
	}
	if s.Looping {
		k.looping += by
	}
	if s.writes != nil {
		k.writing += by
	}
	if s.Awaits.Kind != "" {
		k.awaiting += by
	}
}

// Len returns the number of keys that have a State.
func (k *Table) Len() int { return int(k.size.Load()) }

// Counts returns how many keys failed in their last attempt, how many are parked, and how many teardowns are owed, as
// far as this process has begun with them.
func (k *Table) Counts() (failing, parked, owed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failing, k.parked, k.owed
}

// Where lists the keys for whose State f returns true, in no order. f runs under the lock.
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

// NoteNewlyDecodable notes that the next event of a key is the first since its document decodes again.
func (k *Table) NoteNewlyDecodable(key string) {
	k.Change(key, func(s *State) { s.NewlyDecodable = true })
}

// TakeNewlyDecodable reports, once, that the document did not decode before this event.
func (k *Table) TakeNewlyDecodable(key string) (was bool) {
	k.Amend(key, func(s *State) { was, s.NewlyDecodable = s.NewlyDecodable, false })
	return was
}

// ObserveDelete remembers a delete. One that WasInvalid does not replace an earlier one, which tells more.
func (k *Table) ObserveDelete(key string, deleted ObservedDelete) {
	k.Change(key, func(s *State) {
		if s.Deleted == nil || !deleted.WasInvalid {
			s.Deleted = &deleted
		}
	})
}

// ForgetDelete forgets the delete of a key that exists again, or was torn down.
func (k *Table) ForgetDelete(key string) {
	k.Amend(key, func(s *State) { s.Deleted, s.CleanUp, s.Owed = nil, nil, false })
}

// ForgetTeardown forgets all that is known of the teardown of a key that another replica has torn down.
func (k *Table) ForgetTeardown(key string) {
	k.Amend(key, func(s *State) {
		s.Deleted = nil
		s.EndTeardown()
	})
}

// EndTeardown forgets the teardown of a key, but not the delete that was observed.
func (s *State) EndTeardown() {
	s.DeletedAnchor, s.CleanUp, s.Owed, s.ContestedFrom = nil, nil, false, 0
}

// NoteOwed notes that the key's teardown is owed.
func (k *Table) NoteOwed(key string) { k.Change(key, func(s *State) { s.Owed = true }) }

// NoteDeletedAnchor remembers an anchor that was deleted; nil forgets it.
func (k *Table) NoteDeletedAnchor(key string, anchor *entity.Record) {
	if anchor == nil {
		k.Amend(key, func(s *State) { s.DeletedAnchor = nil })
		return
	}
	k.Change(key, func(s *State) { s.DeletedAnchor = anchor })
}
