package controllerruntime

import (
	"context"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// ownWrites remembers what a key's last reconcile wrote, so that its next one waits until the caches show it.
type ownWrites struct {
	keyed[keptWrites]
	waiting keyed[time.Time] // since when the next reconcile of a key waits, where it does

	order []writesTurn // oldest first; guarded by mu
	turns uint64
}

type keptWrites struct {
	*ownwrites.Log
	turn uint64
}

// writesTurn is over if the key has another one, or none.
type writesTurn struct {
	key  string
	turn uint64
}

const (
	// ownWritesPatience bounds how long a reconcile waits. A cache that is cut off must not stop the rest: after that the
	// reconcile runs on what there is.
	ownWritesPatience = 5 * time.Second
	// ownWritesGlance is how long a worker waits with a key; usually the caches are there by then. Else the key is put back,
	// and looked at again after pauses that grow to ownWritesPauseMost.
	ownWritesGlance    = 20 * time.Millisecond
	ownWritesPauseMost = 500 * time.Millisecond
)

// look tells whether the caches show what the key's last reconcile wrote. If not, it says after which pause to look again; 0
// when it has been waited for long enough.
func (w *ownWrites) look(ctx context.Context, key string) (shown bool, again time.Duration) {
	log, ok := w.get(key)
	if !ok {
		return true, 0
	}
	if log.Reached() {
		w.forget(key)
		return true, 0
	}
	begin := time.Now()
	since, waiting := w.waiting.get(key)
	glance := ownWritesGlance
	if waiting {
		begin, glance = since, 0
	}
	glancing, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	if log.Wait(glancing) == nil {
		w.forget(key)
		return true, 0
	}
	waited := time.Since(begin)
	if waited >= ownWritesPatience || ctx.Err() != nil {
		w.forget(key)
		return false, 0
	}
	if !waiting {
		w.waiting.put(key, begin)
	}
	return false, min(max(waited, ownWritesGlance), ownWritesPauseMost, ownWritesPatience-waited)
}

func (w *ownWrites) forget(key string) {
	w.keyed.forget(key)
	w.waiting.forget(key)
}

const (
	// ownWritesKept bounds the memory spent on keys that are not reconciled again soon, while a cache is cut off.
	ownWritesKept = 4096
	// ownWritesLooks is how many of the oldest are looked at with each new one, whether the caches show them by now.
	ownWritesLooks = 2
)

func (w *ownWrites) put(key string, log *ownwrites.Log) {
	if log.Empty() {
		return
	}
	w.mu.Lock()
	w.turns++
	w.putLocked(key, keptWrites{log, w.turns})
	w.order = append(w.order, writesTurn{key, w.turns})
	oldest := slices.Clone(w.order[:min(ownWritesLooks, len(w.order))])
	w.order = w.order[len(oldest):]
	w.mu.Unlock()
	for _, turn := range oldest {
		w.tidy(turn)
	}
}

// tidy forgets what the caches show, or else puts it back. Beyond the bound it is given up: a reconcile that does not wait is
// followed by another when the caches show it.
func (w *ownWrites) tidy(turn writesTurn) {
	kept, ok := w.get(turn.key)
	if !ok || kept.turn != turn.turn {
		return
	}
	reached := kept.Reached() // asks caches: not under the lock
	w.mu.Lock()
	defer w.mu.Unlock()
	if kept, ok := w.byKey[turn.key]; !ok || kept.turn != turn.turn {
		return
	}
	if !reached && len(w.byKey) <= ownWritesKept {
		w.order = append(w.order, turn)
		return
	}
	delete(w.byKey, turn.key)
	w.countLocked()
	w.waiting.forget(turn.key)
}
