package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Host does the work in the slots. Shards calls it from one goroutine, but for Says, which any may call.
type Host interface {
	// Join is called when the member's lease is there, before it takes any slot or is given one. It returns when the
	// member may work, or ctx has ended: so nobody who works without slots, and looks for members before, works too.
	Join(ctx context.Context)
	// Says is what the host says to those of the other members, as JSON; nil is nothing, and so is more than 256 KiB.
	// It is asked at each renewal.
	Says() json.RawMessage
	// Heard is what the other members say, by their ids, when one of them says something new, comes, or goes.
	Heard(says map[string]json.RawMessage)
	// Load makes ready what the work in some more slots needs: H1. It returns when that is so, or ctx has ended.
	Load(ctx context.Context, slots []int) error
	// Keep is called where Config.Sheds, when the member has needed no other slots for a while: what was loaded for
	// others may be forgotten. It is not called while Load is.
	Keep(ctx context.Context, needed Set) error
	// Gained says that the member has a slot under an epoch until ctx ends: H4. All keys of the slot are to be looked
	// at. From before the call on Owns says yes.
	Gained(ctx context.Context, slot int, epoch uint64)
	// Drain is called when Owns says no for a slot that is handed over: H2. The channel is closed once nothing runs in
	// the slot. After that, or instead, the slot may be gained again, under the same epoch: H5.
	Drain(slot int) (drained <-chan struct{})
	// Idle returns a channel that is closed once nothing runs in any slot. Owns says no for all of them by then.
	Idle() <-chan struct{}
}

// Config is what a member works with. All but the reports is needed.
type Config struct {
	Slots  int
	Name   string // stable over restarts, and of no other member
	Weight int
	// Duration is how long a lease lasts that is not renewed, in whole seconds; Renew is the pause between renewals.
	Duration, Renew time.Duration
	// DrainPatience is how long what runs in a slot may go on that is handed over, before its context ends.
	DrainPatience time.Duration
	Store         Store
	Host          Host
	// Sheds says that the host can forget what it has loaded.
	Sheds bool
	// Report is told why the lease cannot be written, ReportMoves why slots cannot be taken or handed over, and both
	// nil when they can. ReportRest is told why none is taken though nobody may have it (T4).
	Report, ReportMoves, ReportRest func(ctx context.Context, err error)
}

// The causes with which contexts of work end.
var (
	ErrLeaseOver  = errors.New("the lease of this member was not renewed in time")
	ErrTaken      = errors.New("the slot is another member's")
	ErrHandedOver = errors.New("the slot is handed over to another member")
	ErrLeft       = errors.New("the member leaves")
)

// errAwaitsIdle is why there is no lease although one could be had.
var errAwaitsIdle = errors.New("the lease of this member has ended, and others may have its slots: it joins anew " +
	"when what ran under that lease has returned")

// Shards is a member.
type Shards struct {
	Config
	changed chan struct{} // has an element when move is to look again

	deadline atomic.Pointer[time.Time] // of the lease; nil while there is none
	epochs   []atomic.Uint64           // of the slots in which work may start
	fences   []atomic.Uint64           // of the slots that the member has

	mu      sync.Mutex
	view    *view
	restsTo time.Time // T4: until then no slot is taken
	youngTo time.Time // T4: until then none is taken of which the store names an owner
	listed  bool
	life    *life
	before  string   // the id of the life before
	winners []string // by slot, of the candidates below
	among   string
	chosen  time.Time // when the winners were found
	kept    Set       // what Host.Keep was told last
}

// New returns a member that has not joined yet.
func New(c Config) *Shards {
	ignore := func(context.Context, error) {}
	if c.Report == nil {
		c.Report = ignore
	}
	if c.ReportMoves == nil {
		c.ReportMoves = ignore
	}
	if c.ReportRest == nil {
		c.ReportRest = ignore
	}
	return &Shards{
		Config: c, changed: make(chan struct{}, 1), view: newView(c.Slots),
		epochs: make([]atomic.Uint64, c.Slots), fences: make([]atomic.Uint64, c.Slots),
	}
}

// life is one membership, from joining to the end of its lease.
type life struct {
	id     string
	before string          // the id of the one before
	ctx    context.Context // of all work
	cancel context.CancelCauseFunc
	slots  map[int]*held
	loaded Set
	moving sync.WaitGroup // goroutines that move slots

	joined   bool // Host.Join lets it work
	expelled bool // while it waited for that
	leaving  bool
	loading  bool
	taking   bool
	urgent   chan struct{} // has an element when what the member says of itself has changed
}

// held is a slot that the member has.
type held struct {
	epoch    uint64
	since    time.Time
	from     string          // who had it before
	ctx      context.Context // of the work in it
	cancel   context.CancelCauseFunc
	to       string // to whom it is handed over; "" if it is not
	resumed  chan struct{}
	handing  bool // the write is under way: it cannot go back
	draining bool
	overdue  bool // what runs in it has not returned, although its context has ended
}

// Owns returns the epoch of a slot in which work may start; ok is false if none may: R1.
func (s *Shards) Owns(slot int) (epoch uint64, ok bool) {
	epoch = s.epochs[slot].Load()
	return epoch, epoch != 0 && s.Lasts()
}

// Lasts reports whether the lease of this member lasts.
func (s *Shards) Lasts() bool {
	deadline := s.deadline.Load()
	return deadline != nil && !over(*deadline)
}

// Fence returns the key whose revision says that this member has a slot, and that revision: R3. It has it also while it
// drains what runs there; ok is false once it has not.
func (s *Shards) Fence(slot int) (key string, epoch uint64, ok bool) {
	epoch = s.fences[slot].Load()
	return slotKey(slot), epoch, epoch != 0
}

// Apply tells what a watch of the store saw, in the order of the stream.
func (s *Shards) Apply(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot, ok := slotOfKey(e.Key, s.Slots); ok && e.Value == nil && e.Revision >= s.view.slots[slot].revision {
		s.vanished(slot, s.view.slots[slot].revision) // no member deletes one
	} else {
		s.view.apply(e)
	}
	if l := s.life; l != nil && e.Key == memberKey(l.id) && e.Value == nil {
		s.die(l) // L3: it cannot be there again
	}
	s.look()
}

// Listed tells that the watch has shown all that there was.
func (s *Shards) Listed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = true
	s.look()
}

// Reset tells that the store is another one: it was removed, or went back. The member is dead, and joins that one when
// it is listed.
func (s *Shards) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.view.isEmpty() {
		s.rest()
	}
	s.view, s.listed, s.among = newView(s.Slots), false, ""
	if s.life != nil {
		s.die(s.life)
	}
}

// Rest tells that owners may work of which the store says nothing: T4.
func (s *Shards) Rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest()
}

// rest lets no slot be taken for as long as a lease lasts: what told of members is gone, and one of them may work that
// has not noticed. s.mu is held.
func (s *Shards) rest() { s.restsTo = time.Now().Add(s.Duration) }

// Young tells how long the store has been there: T4. One that was put back from a backup names owners of then, while
// others may work that have not noticed. Who has come since cannot know.
func (s *Shards) Young(age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.youngTo = time.Now().Add(s.Duration - max(age, 0))
}

// restsUntil is until when no slot of an owner is taken. s.mu is held.
func (s *Shards) restsUntil(owner string) time.Time {
	if owner != "" && s.youngTo.After(s.restsTo) {
		return s.youngTo
	}
	return s.restsTo
}

// vanished notes that a slot's key is gone, after it was at a revision. s.mu is held.
func (s *Shards) vanished(slot int, revision uint64) {
	if revision != 0 && s.view.slots[slot].revision == revision {
		s.view.vanished(slot, revision)
		s.rest()
	}
}

// die ends a life: R1 and R2. s.mu is held.
func (s *Shards) die(l *life) {
	for slot := range l.slots {
		s.epochs[slot].Store(0)
		s.fences[slot].Store(0)
	}
	l.slots = map[int]*held{}
	l.cancel(ErrLeaseOver)
}

func (s *Shards) look() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// patience bounds a request.
func (c *Config) patience() time.Duration { return max(c.Renew, min(longestRequest, c.Duration/4)) }

const (
	// longestRequest is longer than a request takes that is answered, over a slow network.
	longestRequest = 2 * time.Second
	// retryPause is the pause before what failed is tried again.
	retryPause = 250 * time.Millisecond
	// longestSays is the most that a host may say, in bytes. A message of a server has 1 MB by default.
	longestSays = 256 << 10
	// overduePause is how long what runs in a slot may take to return once its context has ended, before that is told.
	overduePause = time.Second
	// holdsLeast is how long a member keeps a slot before it gives it back to who gave it: two whose views differ would
	// hand it to and fro as fast as they can.
	holdsLeast = time.Second
	// keepPause is how long the winners have to be the same before what the others need is forgotten.
	keepPause = 10 * time.Second
	// atOnce is how many slots are taken at a time.
	atOnce = 32
)

// Say has what the host says be told soon.
func (s *Shards) Say() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil {
		s.life.tell()
	}
}

// tell has what the member says of itself written soon.
func (l *life) tell() {
	select {
	case l.urgent <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// String names the member.
func (s *Shards) String() string { return fmt.Sprintf("member %s", s.Name) }
