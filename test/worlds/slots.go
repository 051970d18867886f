package worlds

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/shards"
)

// ledger is who has which slots, as the status bucket's stream says, message by message.
type ledger struct {
	slots   int
	begin   time.Time
	writers map[string]string    // process, by the id of a write
	lives   map[string]string    // process, by the id of a member
	ends    map[string]time.Time // of processes
	touched map[string]bool      // keys that a saboteur has purged or written
	streams []oneStream

	stream  int                       // the one that is read
	seen    map[uint64]stored         // its messages
	owners  map[int]owning            // by slot
	members map[string]*lease         // by id
	held    map[string]map[int]uint64 // the latest epoch of a process, by slot
	broken  []Broken
}

// owning is what a slot's key says.
type owning struct {
	id    string
	epoch uint64
	old   bool // it was there when its stream was restored
}

// lease is a member's key.
type lease struct {
	by      string
	since   time.Time
	last    time.Time // when it was renewed last
	ttl     time.Duration
	leaving bool
	there   bool
	taken   bool // its key went, and it was neither the process nor the server that has an end to leases
}

func newLedger(w *world) *ledger {
	return &ledger{
		slots: w.plan.Shards, begin: w.begin, writers: w.writers, ends: w.ends, touched: w.touched, streams: w.streams,
		lives: w.lives,
	}
}

// fresh forgets what another stream has said.
func (l *ledger) fresh(number int) {
	l.stream, l.seen = number, map[uint64]stored{}
	l.owners, l.members, l.held = map[int]owning{}, map[string]*lease{}, map[string]map[int]uint64{}
}

func (l *ledger) breaks(r Rule, at time.Time, format string, args ...any) {
	l.broken = append(l.broken, Broken{r, at.Sub(l.begin), fmt.Sprintf(format, args...)})
}

// reads takes the next message.
func (l *ledger) reads(m stored) {
	if m.stream != l.stream {
		l.fresh(m.stream)
	}
	slot, isSlot := l.slotOfKey(m.key)
	id, isMember := strings.CutPrefix(m.key, membersKey)
	switch {
	case isSlot:
		l.readsSlot(slot, m)
	case isMember:
		l.readsMember(id, m)
	default:
		l.readsRecord(m)
	}
	l.seen[m.seq] = m
}

func (l *ledger) slotOfKey(key string) (slot int, ok bool) {
	text, ok := strings.CutPrefix(key, slotsKey)
	if !ok {
		return 0, false
	}
	slot, err := strconv.Atoi(text)
	return slot, err == nil
}

func (l *ledger) readsMember(id string, m stored) {
	known := l.members[id]
	if m.gone {
		if known != nil {
			known.there, known.taken = false, !m.expired && l.writers[m.id] != known.by
		}
		return
	}
	if known == nil {
		known = &lease{by: l.lives[id], since: m.at}
		l.members[id] = known
	}
	var says shards.Member
	_ = json.Unmarshal(m.value, &says)
	known.last, known.ttl, known.leaving, known.there = m.at, m.ttl, says.Leaving, true
}

// ownerOfSlot is the id of the member that a slot's key names.
func ownerOfSlot(value []byte) string {
	var is struct{ Owner string }
	_ = json.Unmarshal(value, &is)
	return is.Owner
}

// readsSlot holds that a slot's key changes by compare-and-set alone, and who may change it: the owner gives the slot to
// any, and another takes it for itself, from one whose lease is not in the stream (T2) and was not deleted before its
// time (T4).
func (l *ledger) readsSlot(slot int, m stored) {
	before, known := l.owners[slot]
	if m.gone {
		delete(l.owners, slot)
		return
	}
	owner := ownerOfSlot(m.value)
	l.owners[slot] = owning{owner, m.seq, l.isOld(m)}
	if l.isOld(m) {
		return
	}
	by := l.writers[m.id]
	to := l.lives[owner]
	if l.held[to] == nil {
		l.held[to] = map[int]uint64{}
	}
	l.held[to][slot] = m.seq
	switch {
	case by == "":
		l.breaks(OneOwner, m.at, "no replica is known to have written that slot %d is of %s", slot, owner)
		return
	case !m.checked || m.fence != "":
		l.breaks(OneOwner, m.at, "%s writes without compare-and-set that slot %d is of %s", by, slot, owner)
		return
	case m.expected == 0 && l.touched[m.key]: // a saboteur has purged it
		return
	case known && m.expected != before.epoch && !l.isUnseen(m.expected):
		l.breaks(OneOwner, m.at, "%s writes over %d that slot %d is of %s, and it is at %d", by, m.expected, slot, owner,
			before.epoch)
		return
	case !known || m.expected != before.epoch:
		return // who had it is not known
	}
	if l.lives[before.id] != by {
		l.holdTaken(slot, before, owner, by, m)
	}
}

// holdTaken is for a slot that another one writes than its owner.
func (l *ledger) holdTaken(slot int, before owning, to, by string, m stored) {
	from := l.members[before.id]
	switch {
	case l.lives[to] != by:
		l.breaks(OneOwner, m.at, "%s gives slot %d to %s, and it was of %s", by, slot, to, before.id)
	case from == nil || m.at.Sub(l.streams[m.stream-1].since) < tookLongest:
		// Nothing is known of it; or the leader may have been asked about the stream before.
	case l.isThere(before.id, l.members[to]) && m.at.Before(from.last.Add(from.ttl)):
		l.breaks(OneOwner, m.at, "%s takes slot %d from %s, whose lease lasts: it was renewed at %.3f for %v", by, slot,
			before.id, from.last.Sub(l.begin).Seconds(), from.ttl)
	}
}

// isThere reports whether a member may still work, as far as its key tells one that takes its slot: it is there, or went
// although it had not said that it leaves (T4). Who joined after that cannot know how it went.
func (l *ledger) isThere(id string, to *lease) bool {
	m, purged := l.members[id], l.touched[membersKey+id]
	if !purged && !m.taken {
		return m.there
	}
	return !m.leaving && to != nil && to.since.Before(m.last)
}

// tookLongest is more than passes between T2 and T3.
const tookLongest = 10 * time.Second

// isOld reports whether a message was in its stream when that was restored.
func (l *ledger) isOld(m stored) bool {
	return m.stream > 0 && len(l.streams) >= m.stream && m.at.Before(l.streams[m.stream-1].created)
}

// isUnseen reports whether a message of this stream is not known: it was written over before it was read.
func (l *ledger) isUnseen(seq uint64) bool {
	_, ok := l.seen[seq]
	return seq != 0 && !ok
}

// readsRecord holds R3: a write of what is about a key carries the fence of the epoch under which its writer has the
// key's slot, or goes over a write of its own since then. What no replica has written may be written over by any.
func (l *ledger) readsRecord(m stored) {
	plain, ok := record.PlainOf(m.key)
	by := l.writers[m.id]
	if !ok || by == "" || l.isOld(m) {
		return
	}
	slot := shards.SlotOf(plain, l.slots)
	owner, known := l.owners[slot]
	if m.fence != "" {
		switch {
		case m.fence != slotsKey+strconv.Itoa(slot):
			l.breaks(Fenced, m.at, "%s writes %s with the fence %s, and its slot is %d", by, m.key, m.fence, slot)
		case !known || l.isUnseen(m.expected):
		case owner.epoch != m.expected:
			l.breaks(Fenced, m.at, "%s writes %s with the fence of epoch %d of slot %d, which is at %d", by, m.key,
				m.expected, slot, owner.epoch)
		case l.lives[owner.id] != by:
			l.breaks(Fenced, m.at, "%s writes %s with the fence of epoch %d of slot %d, which is of %s (%s)", by, m.key,
				m.expected, slot, owner.id, l.lives[owner.id])
		}
		return
	}
	over, seen := l.seen[m.expected]
	switch {
	case l.touched[m.key]:
	case m.stream > 1 && (!known || owner.old || l.lives[owner.id] == by):
		// The caches may still show the stream before, and the revision that is stated is of none.
	case m.checked && m.expected == 0:
		l.breaks(Fenced, m.at, "%s makes %s without a fence", by, m.key)
	case m.checked && !seen, seen && l.writers[over.id] == "": // it is not known, or of no replica
	case !seen || l.writers[over.id] != by:
		l.breaks(Fenced, m.at, "%s writes %s without a fence, over revision %d, which %s has written", by, m.key,
			m.expected, l.writers[over.id])
	case m.expected < l.held[by][slot]:
		l.breaks(Fenced, m.at, "%s writes %s without a fence, over revision %d, which is before its epoch %d of slot %d",
			by, m.key, m.expected, l.held[by][slot], slot)
	}
}
