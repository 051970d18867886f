package shards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// view is what a member knows of the store. It may be behind.
type view struct {
	members map[string]*seen
	slots   []seenSlot
	gone    map[string]bool // T2: ids whose lease the leader said is gone; none comes back
	heard   bool            // Host.Heard knows what the members say
	// early is when members were seen last whose keys went although they had not said that they leave, and the server
	// had not ended their leases.
	early early
}

type early map[string]time.Time

// why is why the slots of a member are not taken whose key went early; nil if that is not known of it.
func (e early) why(id string, duration time.Duration) error {
	at, is := e[id]
	if !is {
		return nil
	}
	return fmt.Errorf("the slots of member %s are not taken before %s: its key went before its lease was over, as by "+
		"hand, and it may work on that has not noticed", id, stamp(at.Add(duration)))
}

// stamp is a time as it is told.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

type seen struct {
	Member
	revision uint64
	at       time.Time // when this revision was seen first
}

type seenSlot struct {
	owner    string // "" if nobody has ever had it, or what is there is no owner
	revision uint64
	before   string // the owner before
}

func newView(slots int) *view {
	return &view{members: map[string]*seen{}, slots: make([]seenSlot, slots), gone: map[string]bool{},
		early: early{},
	}
}

// apply takes an entry, unless a later one of its key is known. An own write may be known before the watch shows it.
func (v *view) apply(e Entry) {
	if id, ok := strings.CutPrefix(e.Key, MemberPrefix); ok {
		v.applyMember(id, e)
		return
	}
	slot, ok := slotOfKey(e.Key, len(v.slots))
	if !ok || e.Revision <= v.slots[slot].revision {
		return
	}
	if e.Value == nil {
		v.slots[slot] = seenSlot{} // its revision may be of a stream before
		return
	}
	var o owned
	if json.Unmarshal(e.Value, &o) != nil {
		o.Owner = ""
	}
	v.slots[slot] = seenSlot{o.Owner, e.Revision, v.slots[slot].owner}
}

// isEmpty reports whether nothing is known.
func (v *view) isEmpty() bool {
	for _, is := range v.slots {
		if is.revision != 0 {
			return false
		}
	}
	return len(v.members) == 0
}

// vanished notes that a slot's key is gone without a message, after it was at a revision.
func (v *view) vanished(slot int, revision uint64) {
	if v.slots[slot].revision == revision {
		v.slots[slot] = seenSlot{}
	}
}

func (v *view) applyMember(id string, e Entry) {
	known := v.members[id]
	if v.gone[id] || known != nil && e.Revision <= known.revision {
		return // the watch is behind
	}
	var m Member
	if e.Value == nil || json.Unmarshal(e.Value, &m) != nil || m.ID != id {
		v.heard = v.heard && known == nil
		if known != nil && !known.Leaving && !e.Expired {
			v.early[id] = known.at
		}
		delete(v.members, id) // who it was shows in the slots that name it
		return
	}
	v.heard = v.heard && known != nil && bytes.Equal(known.Says, m.Says)
	v.members[id] = &seen{m, e.Revision, time.Now()}
}

// says is what the members say, but for one.
func (v *view) says(but string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	past := v.past()
	for id, m := range v.members {
		if id != but && !past[id] && len(m.Says) > 0 {
			all[id] = m.Says
		}
	}
	return all
}

// past are the lives that others follow. All views know them from the member itself, or one would hand slots to the new
// life, and another one to the old.
func (v *view) past() map[string]bool {
	past := map[string]bool{}
	for _, m := range v.members {
		if m.Follows != "" {
			past[m.Follows] = true
		}
	}
	return past
}

// candidates are those who may have slots. Of several with one name, as after a restart before the old lease has ended,
// the older ones keep the name, and so their slots, until they are gone.
func (v *view) candidates() (all []candidate) {
	past := v.past()
	for id, m := range v.members {
		if !m.Leaving && !v.gone[id] && !past[id] {
			all = append(all, candidate{id: id, name: m.Name, weight: m.Weight})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.id, b.id) })
	names := map[string]int{}
	for i := range all {
		names[all[i].name]++
		if n := names[all[i].name]; n > 1 {
			all[i].name += fmt.Sprint("#", n)
		}
	}
	return all
}

// unseen are the members whose lease is not renewed, by id: whether they are gone only the leader of the stream knows.
func (v *view) unseen(but string, duration time.Duration) map[string][]int {
	ids := map[string][]int{}
	for id := range v.members {
		if id != but && !v.live(id, duration) {
			ids[id] = nil
		}
	}
	return ids
}

// lastSeen is when a member was seen last that has not said that it leaves; ok is false if it has, or never was seen.
func (v *view) lastSeen(id string) (at time.Time, ok bool) {
	if m := v.members[id]; m != nil {
		return m.at, true
	}
	at, ok = v.early[id]
	return at, ok
}

// forget forgets who is gone and owns nothing any more.
func (v *view) forget() {
	if len(v.gone)+len(v.early) == 0 {
		return
	}
	owners := map[string]bool{}
	for _, is := range v.slots {
		owners[is.owner] = true
	}
	for id := range v.gone {
		if !owners[id] {
			delete(v.gone, id)
		}
	}
	for id := range v.early {
		if !owners[id] {
			delete(v.early, id)
		}
	}
}

// live reports whether the owner of a slot may still be there, as far as the view tells: T1.
func (v *view) live(id string, duration time.Duration) bool {
	m := v.members[id]
	return m != nil && !v.gone[id] && time.Since(m.at) <= duration+expirySlack
}
