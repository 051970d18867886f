package worlds

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/shards"
)

// stream makes up what the status bucket's stream has stored. Members a and b are of r1 and r2.
type stream struct {
	*world
	seq uint64
	at  time.Duration // since the world began
}

func fabricatedStream() *stream {
	w := fabricated()
	w.plan.Shards = 4
	w.streams = []oneStream{{created: w.begin, since: w.begin}}
	w.writers = map[string]string{"r1": "r1", "r2": "r2"} // a write's id is that of its writer here
	w.lives = map[string]string{"a": "r1", "b": "r2"}
	return &stream{world: w}
}

func (s *stream) stores(m stored) {
	s.seq++
	m.stream, m.seq, m.at = len(s.streams), s.seq, s.begin.Add(s.at)
	s.history = append(s.history, m)
}

func (s *stream) wait(d time.Duration) { s.at += d }

// renews is a member's lease, also the first.
func (s *stream) renews(id string) {
	s.stores(stored{
		key: membersKey + id, id: s.lives[id], checked: true, ttl: longestLease, value: fmt.Appendf(nil, `{"id":%q}`, id),
	})
}

func (s *stream) expires(id string) {
	s.stores(stored{key: membersKey + id, gone: true, expired: true})
}

// slot is slot 1, of a member, as a replica writes it over a revision.
func (s *stream) slot(by, owner string, over uint64) uint64 {
	s.stores(stored{
		key: slotsKey + "1", id: by, checked: true, expected: over, value: fmt.Appendf(nil, `{"owner":%q}`, owner),
	})
	return s.seq
}

// record is a key of slot 1. fence is its epoch; 0 is none.
func (s *stream) record(by string, over, fence uint64) uint64 {
	m := stored{key: inSlotOne, id: by, checked: true, expected: over}
	if fence != 0 {
		m.expected, m.fence = fence, slotsKey+"1"
	}
	s.stores(m)
	return s.seq
}

// inSlotOne is a key of slot 1 of 4.
var inSlotOne = func() string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); shards.SlotOf(key, 4) == 1 {
			return key
		}
	}
}()

// judged are the rules of a ledger that were broken.
func (s *stream) judged() *world {
	l := newLedger(s.world)
	l.fresh(0)
	for _, m := range s.history {
		l.reads(m)
	}
	s.broken = l.broken
	return s.world
}

func TestASlotIsGivenByItsOwnerOrTakenFromOneThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		tale func(s *stream, epoch uint64)
		want []Rule
	}{
		"given by its owner":    {func(s *stream, e uint64) { s.slot("r1", "b", e) }, nil},
		"given by another":      {func(s *stream, e uint64) { s.slot("r2", "a", e) }, []Rule{OneOwner}},
		"taken while it lasts":  {func(s *stream, e uint64) { s.slot("r2", "b", e) }, []Rule{OneOwner}},
		"taken when it expired": {func(s *stream, e uint64) { s.wait(longestLease); s.expires("a"); s.slot("r2", "b", e) }, nil},
		"taken as it left": {func(s *stream, e uint64) {
			s.stores(stored{key: membersKey + "a", gone: true, id: "r1"})
			s.slot("r2", "b", e)
		}, nil},
		"taken as somebody deleted its lease": {func(s *stream, e uint64) {
			s.stores(stored{key: membersKey + "a", gone: true})
			s.slot("r2", "b", e)
		}, []Rule{OneOwner}},
		"over an older revision": {func(s *stream, e uint64) {
			s.slot("r2", "b", s.slot("r1", "b", e)-1)
		}, []Rule{OneOwner}},
		"over one that was not seen": {func(s *stream, e uint64) { s.seq++; s.slot("r2", "b", s.seq) }, nil},
		"without compare-and-set": {func(s *stream, e uint64) {
			s.stores(stored{key: slotsKey + "1", id: "r1", value: []byte(`{"owner":"b"}`)})
		}, []Rule{OneOwner}},
		"by nobody who is known": {func(s *stream, e uint64) { s.slot("", "b", e) }, []Rule{OneOwner}},
		"after it was purged":    {func(s *stream, e uint64) { s.touches(slotsKey + "1"); s.slot("r2", "b", 0) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := fabricatedStream()
			s.wait(time.Minute) // longer than a take-over takes that began in a stream before
			s.renews("b")
			s.wait(time.Second)
			s.renews("a")
			test.tale(s, s.slot("r1", "a", 0))
			s.judged().wants(t, test.want...)
		})
	}
}

func TestRecordsCarryTheFenceOfTheirWriter(t *testing.T) {
	for name, test := range map[string]struct {
		tale func(s *stream, epoch uint64)
		want []Rule
	}{
		"the fence":                 {func(s *stream, e uint64) { s.record("r1", 0, e) }, nil},
		"no fence":                  {func(s *stream, e uint64) { s.record("r1", 0, 0) }, []Rule{Fenced}},
		"no fence, over an own one": {func(s *stream, e uint64) { s.record("r1", s.record("r1", 0, e), 0) }, nil},
		"no fence, over another's": {func(s *stream, e uint64) {
			own := s.record("r1", 0, e)
			s.slot("r1", "b", e)
			s.record("r2", own, 0)
		}, []Rule{Fenced}},
		"a fence that has moved": {func(s *stream, e uint64) {
			s.slot("r1", "b", e)
			s.record("r1", 0, e)
		}, []Rule{Fenced}},
		"the fence of another":  {func(s *stream, e uint64) { s.record("r2", 0, e) }, []Rule{Fenced}},
		"the fence of its last": {func(s *stream, e uint64) { s.record("r2", 0, s.slot("r1", "b", e)) }, nil},
		"no fence, over an own one of an epoch before": {func(s *stream, e uint64) {
			own := s.record("r1", 0, e)
			s.slot("r2", "a", s.slot("r1", "b", e))
			s.record("r1", own, 0)
		}, []Rule{Fenced}},
		"what is late, over an own one": {func(s *stream, e uint64) { // as docs/scaling.md says
			own := s.record("r1", 0, e)
			s.slot("r1", "b", e)
			s.record("r1", own, 0)
		}, nil},
		"no fence, over what was written by hand": {func(s *stream, e uint64) { s.record("r1", s.record("", 0, 0), 0) }, nil},
		"what is about no key": {func(s *stream, e uint64) {
			s.stores(stored{key: "_nagi.brake", id: "r1", checked: true})
		}, nil},
		"a fence of another slot": {func(s *stream, e uint64) {
			s.stores(stored{key: inSlotOne, id: "r1", checked: true, expected: e, fence: slotsKey + "2"})
		}, []Rule{Fenced}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fabricatedStream()
			s.wait(time.Minute)
			s.renews("a")
			s.renews("b")
			test.tale(s, s.slot("r1", "a", 0))
			s.judged().wants(t, test.want...)
		})
	}
}
