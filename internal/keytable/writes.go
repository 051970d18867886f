package keytable

import (
	"context"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

const (
	// OwnWritesPatience bounds how long a reconcile waits for the caches. After that it runs on what they show: a
	// cache that is cut off must not stop the rest.
	OwnWritesPatience = 5 * time.Second
	// ownWritesGlance is how long a worker waits with a key in its hands. Usually the caches show the writes by then.
	// Else the key goes back, and is looked at again after pauses that grow to ownWritesPauseMost.
	ownWritesGlance    = 20 * time.Millisecond
	ownWritesPauseMost = 500 * time.Millisecond
	// ownWritesKept bounds the memory spent on keys that are not reconciled again soon, while a cache is cut off.
	ownWritesKept = 4096
	// ownWritesLooks is how many of the oldest logs each new log has checked: do the caches show them by now?
	ownWritesLooks = 2
)

// keyWrites is what one reconcile of a key wrote.
type keyWrites struct {
	key string
	log *ownwrites.Log
}

// KeepWrites remembers what a key's last reconcile wrote, so that its next one waits until the caches show it.
func (k *Table) KeepWrites(key string, log *ownwrites.Log) {
	if log.Empty() {
		return
	}
	k.Change(key, func(s *State) { s.writes, s.awaitsWrites = log, time.Time{} })
	k.mu.Lock()
	k.wrote = append(k.wrote, keyWrites{key, log})
	oldest := slices.Clone(k.wrote[:min(ownWritesLooks, len(k.wrote))])
	k.wrote = k.wrote[len(oldest):]
	k.mu.Unlock()
	for _, w := range oldest {
		k.tidyWrites(w)
	}
}

// tidyWrites forgets writes that the caches show. It looks at others again later, but if too many are kept it forgets
// them, too: a reconcile that does not wait is followed by another once the caches show its writes.
func (k *Table) tidyWrites(w keyWrites) {
	if k.Of(w.key).writes != w.log {
		return
	}
	reached := w.log.Reached() // asks caches: not under the lock
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.byKey[w.key]
	switch {
	case s == nil || s.writes != w.log:
	case !reached && k.writing <= ownWritesKept:
		k.wrote = append(k.wrote, w)
	default:
		k.applyLocked(w.key, s, (*State).forgetWrites)
	}
}

func (s *State) forgetWrites() { s.writes, s.awaitsWrites = nil, time.Time{} }

// LookForWrites reports whether the caches show what the key's last reconcile wrote. If not, again is the pause until
// the next look; 0 says that the key has waited long enough, or that ctx has ended.
func (k *Table) LookForWrites(ctx context.Context, key string) (shown bool, again time.Duration) {
	s := k.Of(key)
	if s.writes == nil {
		return true, 0
	}
	if s.writes.Reached() {
		k.Amend(key, (*State).forgetWrites)
		return true, 0
	}
	begin, glance := time.Now(), ownWritesGlance
	if !s.awaitsWrites.IsZero() {
		begin, glance = s.awaitsWrites, 0
	}
	glancing, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	if s.writes.Wait(glancing) == nil {
		k.Amend(key, (*State).forgetWrites)
		return true, 0
	}
	waited := time.Since(begin)
	if waited >= OwnWritesPatience || ctx.Err() != nil {
		k.Amend(key, (*State).forgetWrites)
		return false, 0
	}
	k.Amend(key, func(s *State) { s.awaitsWrites = begin })
	return false, min(max(waited, ownWritesGlance), ownWritesPauseMost, OwnWritesPatience-waited)
}
