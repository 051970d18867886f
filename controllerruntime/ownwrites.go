package controllerruntime

import "context"

// ownWrites remembers what a key's last reconcile wrote, so that its next one waits until the caches show it.
type ownWrites struct{ keyed[writeLog] }

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
}

// evictLooks is at how many keys evict looks for one that can go without loss.
const evictLooks = 8
