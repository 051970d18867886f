package worlds

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// vigil holds how long slots have no owner whose lease lasts, while a member is there and nothing hinders it.
type vigil struct {
	*ledger
	hindrances []hindrance
	ref        time.Time // until then there was a reason why slots may have no owner
	told       map[int]bool
}

// latest is how late a slot may be taken, after the end of a lease: a second for the server, and one for the members.
const latest = 2 * time.Second

// aftermath is how long a hindrance goes on: what was asked while it lasted is asked again when it is given up.
const aftermath = 3 * time.Second

// holdSlots holds the rules of slots against all that the status bucket's stream has stored until an end.
func (w *world) holdSlots(end time.Time) {
	if w.plan.Shards == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &vigil{ledger: newLedger(w), told: map[int]bool{}, ref: w.begin}
	for _, h := range w.hindrances {
		if h.to.IsZero() {
			h.to = end
		}
		h.to = h.to.Add(aftermath)
		v.hindrances = append(v.hindrances, h)
	}
	v.all(w.history, end)
	for i, s := range w.streams {
		w.lines = append(w.lines, line{end.Sub(w.begin), "world", fmt.Sprintf(
			"of stream %d of %s %d messages were seen, and the last is %d", i+1, w.subject.status(), s.count, s.seen)})
	}
	w.broken = append(w.broken, v.broken...)
	slices.SortStableFunc(w.broken, func(a, b Broken) int { return cmp.Compare(a.At, b.At) })
}

// moments are all times at which something changes that the vigil goes by, in order.
func (v *vigil) moments(history []stored, end time.Time) (all []time.Time) {
	for _, m := range history {
		all = append(all, m.at)
	}
	for _, h := range v.hindrances {
		all = append(all, h.from, h.to)
	}
	for _, at := range v.ends {
		all = append(all, at)
	}
	all = append(all, end)
	slices.SortFunc(all, time.Time.Compare)
	return slices.DeleteFunc(slices.Compact(all), func(at time.Time) bool { return at.After(end) })
}

// all goes through a night.
func (v *vigil) all(history []stored, end time.Time) {
	v.fresh(0)
	from := v.begin
	for _, to := range v.moments(history, end) {
		if !to.After(from) {
			to = from // what a stream had before it was restored
		}
		v.excuses(from, to)
		v.holdOwned(to)
		for len(history) > 0 && !history[0].at.After(to) {
			m := history[0]
			history = history[1:]
			if m.stream > 1 && m.stream != v.stream { // no slot is taken for a lease (T4), and then one may be waited for
				v.ref = later(v.ref, later(to, v.streams[m.stream-1].since).Add(2*longestLease))
			}
			v.reads(m)
			if l := v.members[memberOf(m.key)]; l != nil && l.since.Equal(m.at) {
				v.ref = later(v.ref, m.at)
			}
		}
		from = to
	}
}

// longestLease is that of a member that has the settings of the first replicas.
var longestLease = settingsOf(Plan{}).lease.Duration

func memberOf(key string) string {
	if len(key) > len(membersKey) && key[:len(membersKey)] == membersKey {
		return key[len(membersKey):]
	}
	return ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// excuses looks for reasons in a time in which nothing changed: all are hindered, or a member is; one has died, and may be
// the one that is to take slots, until its own lease has ended; there is no member.
func (v *vigil) excuses(from, to time.Time) {
	there := false
	for _, l := range v.members {
		if !l.there {
			continue
		}
		end, dead := v.ends[l.by]
		dead = dead && !end.After(from)
		there = there || !dead
		switch {
		case dead:
			v.ref = later(v.ref, l.last)
		case v.isHindered(l.by, from, to):
			v.ref = later(v.ref, to)
		}
	}
	if !there || v.isHindered("", from, to) {
		v.ref = later(v.ref, to)
	}
}

func (v *vigil) isHindered(who string, from, to time.Time) bool {
	return slices.ContainsFunc(v.hindrances, func(h hindrance) bool {
		return h.who == who && !h.from.After(from) && !h.to.Before(to)
	})
}

// holdOwned holds the rule at a time.
func (v *vigil) holdOwned(at time.Time) {
	longest := time.Duration(0)
	for _, l := range v.members {
		if l.there {
			longest = max(longest, l.ttl)
		}
	}
	for slot := range v.slots {
		owner := v.owners[slot]
		l, since, lasts := v.members[owner.id], v.begin, longest
		if l != nil {
			since, lasts = l.last, max(longest, l.ttl)
		}
		if l != nil && l.there && !at.After(l.last.Add(l.ttl)) {
			v.told[slot] = false
			continue
		}
		since = later(since, v.ref)
		if at.Sub(since) <= lasts+latest || v.told[slot] {
			continue
		}
		v.told[slot] = true
		v.breaks(Owned, since.Add(lasts+latest), "slot %d has no owner whose lease lasts, though members are there and nothing "+
			"hinders them since %.3f: it is of %q, at epoch %d", slot, since.Sub(v.begin).Seconds(), owner.id, owner.epoch)
	}
}
