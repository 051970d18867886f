package loops

import (
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cause is an event that made a key due.
type Cause struct {
	// Of is the stream or the informer, and Version what the write made of the object there: its resource version, or
	// DeletedVersion. An empty Version is another writer's.
	Of      any
	Version string
	// Kind and Key name the object. Before and After are what it was and is; either may be nil.
	Kind, Key     string
	Before, After metav1.Object
	// Primary tells whether the object is the primary itself.
	Primary bool
}

// DeletedVersion is the Version of a delete whose resource version the one who deletes is not told.
func DeletedVersion(uid types.UID) string { return "deleted " + string(uid) }

// Bounds of what is remembered for a key: a reconcile may write thousands of objects each time. What is beyond counts
// as another writer's, so no key is delayed that should not be.
const (
	mostOwn    = 4096
	mostCauses = 4096
	// remembered is for how many runs a write is remembered: its event may be late.
	remembered = 3
)

type written struct {
	of      any
	version string
}

type object struct {
	of  any
	key string
}

// Trail is what the runs of one key wrote, and what made it due. Its methods may be called concurrently.
type Trail struct {
	mu      sync.Mutex
	own     map[written]int // by whom: the number of the run
	run     int             // counts all runs
	causes  []Cause         // since the last run began
	others  bool            // another writer has done something since
	short   bool            // the last run asked for the next without a pause
	carried operation.Operations
	ops     operation.Operations // of the run under way
	inARow  int
	before  map[object]struct{} // those whose writes have caused runs in a row
	ended   time.Time           // the last run
}

// NewTrail returns the Trail of a key whose last run ended now.
func NewTrail(now time.Time) *Trail { return &Trail{ended: now} }

// Wrote notes a write of the key's reconcile. It is an ownwrites.Follower.
func (t *Trail) Wrote(of any, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own == nil {
		t.own = map[written]int{}
	}
	if len(t.own) < mostOwn {
		t.own[written{of, version}] = t.run
	}
}

// Saw notes an event that makes the key due. Whose it is is decided when the next run is to begin: the event may come
// before the answer to the write.
func (t *Trail) Saw(c Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Version == "" || len(t.causes) >= mostCauses {
		t.others = true
		return
	}
	t.causes = append(t.causes, c)
}

// Begun says how a run begins.
type Begun struct {
	Pause time.Duration // it must not begin before; nothing was noted
	Trip  *Trip         // the run with which the loop was noticed; else nil
	Real  bool          // another writer has caused it
	InRow int           // how many runs in a row the key itself caused, with this one
}

// Trip describes a loop that was noticed. Cause is one of those of the last run; nil if the key only asked for the next
// run again and again.
type Trip struct{ Cause *Cause }

// Begin notes that a run is to begin for these operations.
func (t *Trail) Begin(now time.Time, ops operation.Operations) (b Begun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	real, own := t.judge(ops &^ t.carried)
	switch {
	case real:
		t.inARow, t.before, b.Real = 0, nil, true
	case own && t.repeats():
		if b.Pause = t.ended.Add(delay(t.inARow)).Sub(now); t.inARow >= Most && b.Pause > 0 {
			return b
		}
		b.Pause = 0
		if t.inARow++; t.inARow == Most {
			b.Trip = t.trip()
		}
	}
	b.InRow = t.inARow
	t.remember()
	t.causes, t.others, t.carried, t.ops = nil, false, 0, ops
	t.run++
	for w, run := range t.own {
		if run < t.run-remembered {
			delete(t.own, w)
		}
	}
	return b
}

// End notes the end of a run: whether it wrote something, whether it asked for the next without a pause, and whether it
// failed, so that its operations come again. keep is false if the key is calm, and needs no Trail any more.
func (t *Trail) End(now time.Time, wrote, short, failed bool) (keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.short = now, short
	if failed {
		t.carried = t.ops
	}
	return wrote || short || failed
}

// Idle reports whether the last run has ended so long ago that a loop would have gone on.
func (t *Trail) Idle(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.ended) > 2*longestDelay
}

// judge tells who has caused a run: another writer, or the key itself. Neither is true of a retry or a
// resync.
func (t *Trail) judge(ops operation.Operations) (real, own bool) {
	var ownPut, ownEvent bool
	for _, c := range t.causes {
		if _, wrote := t.own[written{c.Of, c.Version}]; !wrote {
			return true, false
		}
		if c.Primary {
			ownPut = true
		} else {
			ownEvent = true
		}
	}
	unexplained := ops.Has(operation.Put) && !ownPut || operation.MayBeOwn(ops) && !ownEvent
	own = ownPut || ownEvent || t.short && ops.Has(operation.Requeue)
	paused := ops.Has(operation.Requeue) && !own
	return t.others || operation.OfOthers(ops) || unexplained || paused, own
}

// repeats tells whether the key did again what caused a run before. A reconcile that makes one object after another
// does something else each time, and comes to an end.
func (t *Trail) repeats() bool {
	for _, c := range t.causes {
		if _, before := t.before[object{c.Of, c.Key}]; before {
			return true
		}
	}
	return len(t.causes) == 0 // it asked for the run
}

func (t *Trail) remember() {
	if t.before == nil {
		t.before = map[object]struct{}{}
	}
	for _, c := range t.causes {
		if len(t.before) < mostOwn {
			t.before[object{c.Of, c.Key}] = struct{}{}
		}
	}
}

// trip picks the cause that says most: the last one of which it is known what it changed.
func (t *Trail) trip() *Trip {
	trip := &Trip{}
	for i := range t.causes {
		c := &t.causes[i]
		if trip.Cause == nil || c.Before != nil && c.After != nil {
			trip.Cause = c
		}
	}
	return trip
}

// delay is for how long a run waits after the last one, when so many in a row were caused by the key itself.
func delay(inARow int) time.Duration {
	d := shortestDelay
	for range inARow - Most {
		if d *= 2; d >= longestDelay {
			return longestDelay
		}
	}
	return d
}
