package worlds

import (
	"fmt"
	"testing"
	"time"
)

// TestASlotIsOwnedWithinALeaseAndTwoSeconds of the last renewal of its owner.
func TestASlotIsOwnedWithinALeaseAndTwoSeconds(t *testing.T) {
	const limit = 17 * time.Second
	for name, test := range map[string]struct {
		takes time.Duration // after the owner's last renewal
		tale  func(s *stream)
		want  []Rule
	}{
		"in time":  {limit, func(*stream) {}, nil},
		"too late": {limit + time.Millisecond, func(*stream) {}, []Rule{Owned}},
		"too late, while the other one is hindered": {limit + 20*time.Second, func(s *stream) {
			s.hindered("r2", 10*time.Second, limit+10*time.Second)
		}, nil},
		"too late, since the other one was hindered": {limit + 13*time.Second + 2*time.Millisecond, func(s *stream) {
			s.hindered("r2", 2*time.Second, 10*time.Second)
		}, []Rule{Owned}},
		"too late, while the owner is hindered": {limit + time.Millisecond, func(s *stream) {
			s.hindered("r1", 16*time.Second, 40*time.Second)
		}, []Rule{Owned}},
		"too late, while the server is away": {limit + 20*time.Second, func(s *stream) {
			s.hindered("", 10*time.Second, limit+10*time.Second)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := fabricatedStream()
			s.plan.Shards = 2
			s.renews("b")
			for i := range s.plan.Shards {
				s.stores(stored{
					key: fmt.Sprint(slotsKey, i), id: "r2", checked: true, value: []byte(`{"owner":"b"}`),
				})
			}
			s.each(time.Minute, func() { s.renews("b") })
			s.renews("a")
			epoch := s.slot("r2", "a", 3)
			died := s.at
			s.ends["r1"] = s.begin.Add(died)
			test.tale(s)
			s.each(test.takes-test.takes%(2*time.Second), func() {
				s.renews("b")
				if s.at-died == 16*time.Second {
					s.expires("a")
				}
			})
			s.at = died + test.takes
			s.slot("r2", "b", epoch)
			s.holdSlots(s.begin.Add(s.at))
			s.wants(t, test.want...)
		})
	}
}

// TestASlotThatIsNeverTakenIsTold once, as the time is over.
func TestASlotThatIsNeverTakenIsTold(t *testing.T) {
	s := fabricatedStream()
	s.plan.Shards = 1
	s.renews("b")
	s.each(time.Minute, func() { s.renews("b") })
	s.holdSlots(s.begin.Add(s.at))
	s.wants(t, Owned)
	if s.broken[0].At != 17*time.Second {
		t.Errorf("told at %v", s.broken[0].At)
	}
}

// TestNobodyHasToTakeASlotWhereNoMemberIs.
func TestNobodyHasToTakeASlotWhereNoMemberIs(t *testing.T) {
	s := fabricatedStream()
	s.plan.Shards = 1
	s.renews("a")
	s.wait(16 * time.Second)
	s.expires("a")
	s.wait(time.Hour)
	s.holdSlots(s.begin.Add(s.at))
	s.wants(t)
}

// TestADeadMemberTakesNoSlots, though its lease lasts: it is excused where it is the last.
func TestADeadMemberTakesNoSlots(t *testing.T) {
	s := fabricatedStream()
	s.plan.Shards = 1
	s.renews("b")
	s.ends["r2"] = s.begin.Add(s.at)
	s.each(40*time.Second, func() { s.hindered("", 0, 0) }) // no message comes
	s.holdSlots(s.begin.Add(s.at))
	s.wants(t)
}

// each calls f each two seconds.
func (s *stream) each(lasts time.Duration, f func()) {
	for end := s.at + lasts; s.at < end; {
		s.wait(2 * time.Second)
		f()
	}
}

// hindered has a replica be hindered from so long after now.
func (s *stream) hindered(who string, from, to time.Duration) {
	now := s.begin.Add(s.at)
	s.hindrances = append(s.hindrances, hindrance{who, now.Add(from), now.Add(to)})
}
