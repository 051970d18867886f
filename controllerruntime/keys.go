package controllerruntime

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keyState is what is remembered of one key beside the queue. Most keys have none: it says what is unusual about a key.
type keyState struct {
	// failures counts the attempts, and the steps of a teardown, that failed in a row; recordFailures the writes of the key's
	// record; refusals the statuses that its record could not take. Each count has its own backoff.
	failures, recordFailures, refusals int
	// parked is set after a terminal error, until the primary changes.
	parked *parkedState
	// deleted is the delete of the primary, as this process observed it, until the teardown is over.
	deleted *observedDelete
	// deletedAnchor is an anchor that somebody deleted by hand, until it is written again. A key that is reconciled gets its
	// anchor anyway; one that is suspended, invalid or parked would not, and its delete would be lost.
	deletedAnchor *entity.Record
	// newlyDecodable is set from when the document decodes again until its event comes, which predicates must not hold back.
	newlyDecodable bool
	// cleanUp is set when the reconciler of the delete has succeeded and the rest of the teardown goes on.
	cleanUp *pendingCleanUp
	// unanswered is set when an attempt failed because a Kubernetes API server did not answer.
	unanswered *unansweredBy
	// writes are what the last reconcile wrote, until the caches show it; awaitsWrites is since when the next one waits for it.
	writes       *ownwrites.Log
	awaitsWrites time.Time
}

// parkedState is the state of the primary that could not be reconciled; any other state deserves another attempt. It holds
// the object and not the revision: in a stream that was recreated another document may have the same revision.
type parkedState struct {
	presence source.Presence
	object   metav1.Object
}

// unansweredBy names the informer whose API server did not answer; nil if the error does not tell.
type unansweredBy struct{ source *watchErrors }

// manyKeys is from how many keys on a map is given up once it is empty: a map never shrinks.
const manyKeys = 10_000

// keyTable holds the keyState of the keys that have one. It is made for being empty: then nobody locks. A state that becomes
// zero is dropped. All methods may be called concurrently.
type keyTable struct {
	size atomic.Int64

	mu              sync.Mutex
	byKey           map[string]*keyState
	most            int // keys since the map was made
	failing, parked int
	writing         int         // keys that have writes
	wrote           []keyWrites // those to look at whether the caches show them, the oldest first
}

// of returns a copy of what is remembered of a key.
func (k *keyTable) of(key string) keyState {
	if k.size.Load() == 0 {
		return keyState{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.byKey[key]; s != nil {
		return *s
	}
	return keyState{}
}

// change lets f change what is remembered of a key, and begins to remember it.
func (k *keyTable) change(key string, f func(*keyState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.byKey[key]
	if s == nil {
		s = &keyState{}
	}
	k.applyLocked(key, s, f)
}

// amend is change for a key of which something is remembered; of any other it does nothing.
func (k *keyTable) amend(key string, f func(*keyState)) {
	if k.size.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.byKey[key]; s != nil {
		k.applyLocked(key, s, f)
	}
}

// forget forgets everything about a key.
func (k *keyTable) forget(key string) { k.amend(key, func(s *keyState) { *s = keyState{} }) }

// resetFailures forgets the failed attempts of a key: one succeeded, or the primary changed.
func (k *keyTable) resetFailures(key string) { k.amend(key, func(s *keyState) { s.failures = 0 }) }

func (k *keyTable) applyLocked(key string, s *keyState, f func(*keyState)) {
	k.tallyLocked(s, -1)
	f(s)
	k.tallyLocked(s, 1)
	if *s == (keyState{}) {
		delete(k.byKey, key)
	} else {
		if k.byKey == nil {
			k.byKey = map[string]*keyState{}
		}
		k.byKey[key] = s
	}
	k.most = max(k.most, len(k.byKey))
	if len(k.byKey) == 0 && k.most > manyKeys {
		k.byKey, k.most = nil, 0
	}
	k.size.Store(int64(len(k.byKey)))
}

func (k *keyTable) tallyLocked(s *keyState, by int) {
	if s.failures > 0 {
		k.failing += by
	}
	if s.parked != nil {
		k.parked += by
	}
	if s.writes != nil {
		k.writing += by
	}
}

// counts returns how many keys failed in their last attempt, and how many are parked.
func (k *keyTable) counts() (failing, parked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failing, k.parked
}

// where lists the keys of whose state f is true, in no order.
func (k *keyTable) where(f func(*keyState) bool) (keys []string) {
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

// staysParked tells whether a key with this state is not tried again now; else it is parked no longer. One worker at a time
// asks about a key.
func (k *keyTable) staysParked(key string, v view, ops operation.Operations) bool {
	parked := k.of(key).parked
	if parked == nil {
		return false
	}
	if *parked == (parkedState{v.Presence, v.Object}) && !ops.WakesParked() {
		return true
	}
	k.amend(key, func(s *keyState) { s.parked = nil })
	return false
}

// noteNewlyDecodable notes that the next event of a key is the first since its document decodes again.
func (k *keyTable) noteNewlyDecodable(key string) {
	k.change(key, func(s *keyState) { s.newlyDecodable = true })
}

// takeNewlyDecodable tells, once, that the document did not decode before this event.
func (k *keyTable) takeNewlyDecodable(key string) (was bool) {
	k.amend(key, func(s *keyState) { was, s.newlyDecodable = s.newlyDecodable, false })
	return was
}

// observeDelete remembers a delete. What is known better stays: of a document that did not decode and is gone nobody said how.
func (k *keyTable) observeDelete(key string, deleted observedDelete) {
	k.change(key, func(s *keyState) {
		if s.deleted == nil || !deleted.resolved {
			s.deleted = &deleted
		}
	})
}

// forgetDelete is for a key that exists again, or was torn down.
func (k *keyTable) forgetDelete(key string) { k.amend(key, func(s *keyState) { s.deleted = nil }) }

// noteDeletedAnchor remembers an anchor that somebody deleted; nil forgets it.
func (k *keyTable) noteDeletedAnchor(key string, anchor *entity.Record) {
	if anchor == nil {
		k.amend(key, func(s *keyState) { s.deletedAnchor = nil })
		return
	}
	k.change(key, func(s *keyState) { s.deletedAnchor = anchor })
}
