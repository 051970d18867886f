package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// statsOfMember is what a replica says of a member; the zero value if it knows none of that name.
func (m *member) statsOfMember(name string) (is ShardMember) {
	for _, one := range m.c.Stats().Shards.Members {
		if one.Name == name {
			is = one
		}
	}
	return is
}

// TestEachMemberSaysWhoLeads, and since when, also after that one has gone.
func TestEachMemberSaysWhoLeads(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		began := time.Now()
		a := s.join("a")
		natstest.Eventually(t, "a leads", func() bool { return a.c.Stats().Leading })
		led := time.Now()
		time.Sleep(time.Second)
		later := time.Now()
		b, c := s.join("b"), s.join("c")
		time.Sleep(20 * time.Second)
		leads := func(name string, from, to time.Time, at ...*member) {
			t.Helper()
			for _, m := range at {
				for _, one := range m.c.Stats().Shards.Members {
					if one.Leading != (one.Name == name) || one.Leading == one.LeadingSince.IsZero() {
						t.Errorf("%s says of %s: %+v", m.name, one.Name, one)
					}
				}
				if since := m.statsOfMember(name).LeadingSince; since.Before(from) || since.After(to) {
					t.Errorf("%s says that %s leads since %v, and it began between %v and %v", m.name, name, since, from, to)
				}
			}
		}
		leads("a", began, led, a, b, c)
		joined := a.statsOfMember("b").Since
		if joined.Before(later) || time.Since(joined) < 19*time.Second || !b.statsOfMember("b").Since.Equal(joined) {
			t.Errorf("b joined at %v, after %v", joined, later)
		}
		halted := time.Now()
		a.running.halt()
		time.Sleep(5 * time.Second)
		next := "b"
		if c.c.Stats().Leading {
			next = "c"
		}
		leads(next, halted, time.Now(), b, c)
	})
}

// TestWhatMovesIsToldOfWhoGivesAndOfWhoGets: a slot in which something runs is handed over when that has returned.
func TestWhatMovesIsToldOfWhoGivesAndOfWhoGets(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		s.takes = 5 * time.Second
		a := s.join("a", WithWorkers(400))
		time.Sleep(5 * time.Second)
		s.make(a.sites, 400) // some in each slot
		time.Sleep(time.Second)
		b := s.join("b", WithWorkers(400))
		time.Sleep(3 * time.Second)
		moves := a.c.Stats().Shards.Moving
		for _, m := range []*member{a, b} {
			gives, gets := m.statsOfMember("a"), m.statsOfMember("b")
			if moves == 0 || gives.Slots != 64 || gives.Moving != moves || gives.Coming != 0 || gets.Slots != 0 ||
				gets.Moving != 0 || gets.Coming != moves {
				t.Errorf("%d slots move; %s says %+v and %+v", moves, m.name, gives, gets)
			}
		}
		time.Sleep(20 * time.Second)
		for _, m := range []*member{a, b} {
			gave, got := m.statsOfMember("a"), m.statsOfMember("b")
			if gave.Slots != 64-moves || gave.Moving+gave.Coming+got.Moving+got.Coming != 0 || got.Slots != moves {
				t.Errorf("%d slots have moved; %s says %+v and %+v", moves, m.name, gave, got)
			}
		}
	})
}

// TestAMemberThatIsBackBeforeItsLeaseHasEndedIsOneMoreUntilThen: its slots stay those of the life that crashed, and it
// has them again when that one's lease has ended. Between the others none moves.
func TestAMemberThatIsBackBeforeItsLeaseHasEndedIsOneMoreUntilThen(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		a, b := s.join("a"), s.join("b")
		s.join("c")
		s.make(b.sites, 200) // some in each slot
		time.Sleep(20 * time.Second)
		whose := func() map[string]string {
			of := map[string]string{}
			for i := range 200 {
				of[siteName(i)] = b.c.Explain(siteName(i)).Member
			}
			return of
		}
		before, had := whose(), b.statsOfMember("a").Slots
		a.proxy.Blackhole() // as a crash is seen by the others
		again := s.join("a")
		time.Sleep(5 * time.Second)
		gained := map[string]int{} // by whose they were
		for key, now := range whose() {
			switch was := before[key]; {
			case was != now && now != "a":
				t.Errorf("%s was %s's, and is %q's", key, was, now)
			case was != now:
				gained[was]++
			}
		}
		stats := again.c.Stats().Shards
		if gained["b"] == 0 || gained["c"] == 0 || stats.Held == 0 || stats.Held == had {
			t.Errorf("a had %d slots, and has %d; it gained of %v", had, stats.Held, gained)
		}
		time.Sleep(20 * time.Second)
		for key, now := range whose() {
			if before[key] != now {
				t.Errorf("%s was %s's, and in the end it is %q's", key, before[key], now)
			}
		}
	})
}
