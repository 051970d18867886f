package controllerruntime

import (
	"context"
	"time"
)

// ownWrites remembers what a key's last reconcile wrote, so that its next one waits until the caches show it.
type ownWrites struct {
	keyed[writeLog]
	waiting keyed[time.Time] // since when the next reconcile of a key waits, where it does
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

// ownWritesKept bounds the memory spent on keys that are not reconciled again soon.
const ownWritesKept = 4096

func (w *ownWrites) put(key string, log writeLog) {
	if log.Empty() {
		return
	}
	if w.len() >= ownWritesKept {
		w.evict()
	}
	w.keyed.put(key, log)
}

// evict makes room by any of the keys: the caches have long shown what most of them wrote, and a reconcile that does not
// wait is followed by another when they do.
func (w *ownWrites) evict() {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // only look, do not wait
	w.mu.Lock()
	defer w.mu.Unlock()
	victim, looked := "", 0
	for key, log := range w.byKey {
		if victim = key; looked == evictLooks || log.Wait(ended) == nil {
			break
		}
		looked++
	}
	delete(w.byKey, victim)
	w.countLocked()
	w.waiting.forget(victim)
}

// evictLooks is at how many keys evict looks for one that can go without loss.
const evictLooks = 8
