package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// leadership is whether this replica works, waits for the lease, or stops.
type leadership struct {
	leads    atomic.Bool                // a term has begun and has not ended
	since    atomic.Pointer[time.Time]  // when that was; nil without such a term
	won      atomic.Pointer[lease.Term] // of that term; nil without a lease
	stopping atomic.Bool                // the controller stops
	holder   atomic.Pointer[string]     // who held the lease when it was read last; nil: it was not read
	renewed  atomic.Pointer[time.Time]  // when a replica was seen to take or to renew the lease; nil: none was

	mu    sync.RWMutex
	waits bool // for the lease, with warm caches
}

// leads notes that this replica leads from now on, or no more. Other members are told.
func (e *Engine) leads(now bool) {
	var since *time.Time
	if now {
		at := time.Now().UTC()
		since = &at
	}
	e.leadership.since.Store(since)
	e.leadership.leads.Store(now)
	if e.sharing != nil {
		notifyOf(e.sharing.changed)
	}
}

// waitNoMore is for a term that begins.
func (l *leadership) waitNoMore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = false
}

// noteRenewed notes that the cache of records has shown that a replica took or renewed the lease.
func (l *leadership) noteRenewed() {
	now := time.Now()
	l.renewed.Store(&now)
}

// LeaseRenewed returns when this replica last saw one take or renew the lease; zero if it has seen none, and without a
// lease.
func (e *Engine) LeaseRenewed() time.Time {
	if at := e.leadership.renewed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// LeasePause is how long the replica that leads waits between two renewals.
func (e *Engine) LeasePause() time.Duration { return e.opts.Lease.RetryPeriod }

// standBy begins the wait for the lease. What was due meanwhile and is gone is forgotten, as Notice does from now on:
// secondaries that were listed before the primaries name owners that were not known yet, and the record of a key may
// have gone while a worker of the last term had it. Notice waits meanwhile, or a key that comes back just then would be
// due no more.
func (e *Engine) standBy() {
	if e.sharing != nil {
		return // each slot begins by itself
	}
	e.leadership.mu.Lock()
	defer e.leadership.mu.Unlock()
	e.leadership.waits = true
	e.queue.CancelDueUnless(e.primary.Exists)
	e.forgetGone()
	e.causes.Clear()
}

// forgetStale forgets, as a term begins, what was remembered of keys while this replica still took own writes for their
// records, which went with their stream: no event tells of that.
func (e *Engine) forgetStale() {
	e.leadership.mu.Lock()
	defer e.leadership.mu.Unlock()
	e.forgetGone()
}

// forgetGone forgets what is remembered of keys that are gone. leadership.mu is held.
func (e *Engine) forgetGone() {
	for _, key := range e.keys.KeysWhere(func(*keytable.State) bool { return true }) {
		if e.isGone(key) && !e.dueBeside(key) {
			e.keys.ForgetButMet(key)
		}
	}
}

// isGone reports whether a key has neither a document nor a record. No event will tell of it any more, so all that is
// remembered of it is in the way.
func (e *Engine) isGone(key string) bool { return !e.primary.Exists(key) && !e.records.Exists(key) }

// Notice makes a key due because of something that a source told. A standby keeps keys that exist, so that it takes
// over warm, and forgets those that are gone, or it would remember every key that ever was: their records and the
// brake bring them back when its term begins. Then it returns false. WithoutLease it works on what it has reconciled.
func (e *Engine) Notice(key string, ops operation.Operations, prio queue.Priority) (due bool) {
	e.leadership.mu.RLock()
	defer e.leadership.mu.RUnlock()
	if e.waitsFor(key) && !e.primary.Exists(key) {
		if e.dueBeside(key) {
			return true
		}
		e.queue.CancelDue(key)
		if e.isGone(key) {
			e.keys.ForgetButMet(key)
		} else {
			e.keys.ResetFailures(key) // the replica that leads has its own
		}
		return false
	}
	e.queue.Add(key, ops, prio)
	return true
}

// waitsFor reports whether this replica is a standby for a key. leadership.mu is held.
func (e *Engine) waitsFor(key string) bool {
	if e.sharing != nil {
		return !e.sharing.isOpen(key)
	}
	return e.leadership.waits
}

// Shares reports whether replicas share the keys, and this one may have some without the lease.
func (e *Engine) Shares() bool { return e.sharing != nil }

// Works reports whether this replica works at a key.
func (e *Engine) Works(key string) bool {
	if e.sharing != nil {
		return e.sharing.isOpen(key)
	}
	return e.Leads()
}

// Traced reports whether an observer wants to know the causes of reconciles.
func (e *Engine) Traced() bool { return e.causes != nil }

// Caused notes the write that is about to make a key due. A standby notes none: another replica reconciles it, and this
// one too WithoutLease alone.
func (e *Engine) Caused(key string, c *causes.Cause) {
	if c == nil {
		return
	}
	e.leadership.mu.RLock()
	defer e.leadership.mu.RUnlock()
	if !e.waitsFor(key) || e.opts.WithoutLease {
		e.causes.Add(key, c)
	}
}

// NotCaused takes that back.
func (e *Engine) NotCaused(key string, c *causes.Cause) { e.causes.Remove(key, c) }
