package engine

import (
	"context"
	"encoding/json"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// said is what a member says to the others: what its brake asks, or tells, and what it was asked for.
type said struct {
	Asks *brake.Asks `json:"asks,omitempty"`
	Told *brake.Told `json:"told,omitempty"`
	Due  []passed    `json:"due,omitempty"`
	// Heard is up to which of what others say is due this one has heard, by member.
	Heard map[string]uint64 `json:"heard,omitempty"`
	// Leads is since when this one holds the ordinary lease; nil if it does not.
	Leads *time.Time `json:"leads,omitempty"`
	// Work is how much it has in hand. It is no reason to say anything, and goes along with what is said anyway.
	Work *MemberWork `json:"work,omitempty"`
}

// memberLeads is which member leads, by its id, and since when.
type memberLeads struct {
	id    string
	since time.Time
}

// talk is what members say to each other. It implements that part of shards.Host.
type talk struct {
	*Engine
	passing passing
	works   atomic.Pointer[map[string]MemberWork] // what the others have in hand, by id
	leader  atomic.Pointer[memberLeads]           // which of the others leads; nil if none says so
	says    atomic.Pointer[said]
	heard   atomic.Pointer[map[string]json.RawMessage]
	changed chan struct{} // has an element when what this member says may have changed
	hears   chan struct{} // has an element when something was heard
}

func newTalk(e *Engine) *talk {
	return &talk{
		Engine: e, passing: passing{lasts: e.opts.Lease.Duration},
		changed: make(chan struct{}, 1), hears: make(chan struct{}, 1),
	}
}

// Says implements shards.Host.
func (t *talk) Says() json.RawMessage {
	says := t.says.Load()
	if says == nil {
		return nil
	}
	now := *says
	now.Work = t.inHandHere()
	data, err := json.Marshal(now)
	if err != nil {
		printable.Logger(klog.Background()).Error(err, "Cannot say to other members what the brake asks",
			"controller", t.name)
		return nil
	}
	return data
}

// Heard implements shards.Host.
func (t *talk) Heard(says map[string]json.RawMessage) {
	t.heard.Store(&says)
	notifyOf(t.hears)
}

const (
	// talkPause is the shortest time between two changes of what a member says.
	talkPause = 20 * time.Millisecond
	// askedPause is how often what is asked is heard again: the caches may not have shown yet what it is about.
	askedPause = time.Second
)

// run says what changes, with say, and hears the others, until ctx ends.
func (t *talk) run(ctx context.Context, say func()) {
	var again <-chan time.Time
	for runs := false; ; {
		hears := true
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
			pause(ctx, talkPause)
			hears = t.brake.Runs() != runs // what was heard means something else now
		case <-t.hears:
		case <-again:
		}
		if runs = t.brake.Runs(); hears {
			again = nil
			if t.hear(ctx) {
				again = time.After(askedPause)
			}
		}
		if t.form() {
			say()
		}
		if again == nil && t.passing.any() {
			again = time.After(askedPause)
		}
	}
}

// form makes what this member says now, and reports whether it has changed.
func (t *talk) form() bool {
	var now said
	if won := t.leadership.won.Load(); won != nil {
		if told, runs := t.brake.Tells(won.Revision); runs {
			now.Told = &told
		}
	}
	if now.Told == nil {
		asks := t.brake.Asks(t.Works)
		now.Asks = &asks
	}
	now.Due, now.Heard, now.Leads = t.passing.now(), t.passing.hears(), t.leadership.since.Load()
	if before := t.says.Load(); before != nil && reflect.DeepEqual(*before, now) {
		return false
	}
	t.says.Store(&now)
	return true
}

// hear gives the brake what the others say. It reports whether they ask anything of this one.
func (t *talk) hear(ctx context.Context) (asked bool) {
	heard := t.heard.Load()
	if heard == nil {
		return false
	}
	var asks []brake.Asks
	var told *brake.Told
	work, me := map[string]MemberWork{}, t.sharing.ID()
	var leader *memberLeads
	var acknowledged []uint64
	for id, says := range *heard {
		var one said
		if err := json.Unmarshal(says, &one); err != nil {
			printable.Logger(klog.FromContext(ctx)).V(1).Info("A member says what this one does not understand",
				"member", printable.Text(id), "err", err)
			continue
		}
		t.takePassed(id, one.Due)
		acknowledged = append(acknowledged, one.Heard[me])
		if one.Work != nil {
			work[id] = *one.Work
		}
		if one.Leads != nil && (leader == nil || one.Leads.After(leader.since)) {
			leader = &memberLeads{id, *one.Leads}
		}
		if one.Asks != nil {
			asks = append(asks, *one.Asks)
			asked = asked || !one.Asks.IsZero()
		}
		if one.Told != nil && (told == nil || one.Told.Term > told.Term) {
			told = one.Told
		}
	}
	t.works.Store(&work)
	t.leader.Store(leader)
	t.passing.acknowledged(acknowledged)
	t.passing.forget(func(member string) bool { return (*heard)[member] != nil })
	switch {
	case t.brake.Runs():
		for _, a := range asks {
			t.noteAgedOut(a.AgedOut)
		}
		t.brake.Asked(asks)
		return asked
	case told != nil:
		return t.brake.Follow(*told)
	}
	return false
}

// noteAgedOut remembers of keys that they aged out, as other members have found.
func (t *talk) noteAgedOut(keys []string) {
	for _, key := range keys {
		if !t.primary.Exists(key) {
			t.keys.Change(key, func(s *keytable.State) {
				if s.Deleted == nil {
					s.Deleted = &keytable.ObservedDelete{AgedOut: true}
				}
			})
		}
	}
}
