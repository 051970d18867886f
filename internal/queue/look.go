package queue

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// Known is what the queue knows of one key at one moment. The zero Known says that there is nothing to come.
type Known struct {
	// Running says that a worker has the key: between Get and Done.
	Running bool
	// Held says that no worker gets it now: between Hold and Release.
	Held bool
	// Due is why the next run is due; empty: it is not. Of a key that is Running it is due again. ReadyAt is since
	// when, and Prio its priority.
	Due     operation.Operations
	Prio    Priority
	ReadyAt time.Time
	// Wait delays the next run: a retry, a requeue, or quiet. User is a user's EnqueueAfter.
	Wait, User Delay
}

// Delay is one delay of a key. The zero Delay is none.
type Delay struct {
	Ops        operation.Operations // not empty
	Kind       DelayKind
	Since, Due time.Time // Since is when the delay was set, or the key first changed
}

// IsSet reports whether there is a delay.
func (d Delay) IsSet() bool { return d.Ops != 0 }

// IsQuiet reports whether a changed key has to be quiet first.
func (d Delay) IsQuiet() bool { return d.IsSet() && d.Kind == quietDelay }

// Look returns what the queue knows of a key.
func (q *Queue) Look(key string) (k Known) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil {
		return Known{}
	}
	k = Known{
		Running: e.running, Held: e.held, Due: e.ops, Prio: e.prio, Wait: q.delayOf(e.wait), User: q.delayOf(e.user),
	}
	if e.ops != 0 || e.running {
		k.ReadyAt = q.epoch.Add(e.readyAt)
	}
	return k
}

// Turn says behind what a ready key waits, beside the keys of higher priorities. The zero Turn says nothing: the key is
// not ready, or neither groups nor a rate are set.
type Turn struct {
	Grouped bool
	Group   string        // its name
	Keys    int           // how many keys of the group are ready with the key's priority, and the key itself
	Others  bool          // other groups have such keys, too
	Every   time.Duration // the rate: one key in each; 0 without one
	RateAt  time.Time     // when the rate allows the next key of all; zero: now
}

// TurnOf returns what the turn of a key waits for.
func (q *Queue) TurnOf(key string) (t Turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || !e.is(Ready) {
		return Turn{}
	}
	if e.group != 0 {
		level := q.ready.level(e.place())
		t = Turn{Grouped: true, Group: q.groups.byID[e.group-1].name, Keys: level.lanes[e.group].keys.len}
		t.Others = len(level.lanes) > 1
	}
	if q.rate != nil {
		now := q.now()
		t.Every = q.rate.every
		if at := later(now, q.rate.wait(now)); at > now {
			t.RateAt = q.epoch.Add(at)
		}
	}
	return t
}

func (q *Queue) delayOf(t *timer) Delay {
	if t == nil {
		return Delay{}
	}
	return Delay{Ops: t.ops, Kind: t.kind, Since: q.epoch.Add(t.since), Due: q.epoch.Add(t.due)}
}
