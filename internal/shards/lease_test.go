package shards

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestNoWorkStartsOnceTheClockSaysThatTheLeaseIsOver, also as long as nothing else has noticed that: R1. A process that was
// stopped may go on there.
func TestNoWorkStartsOnceTheClockSaysThatTheLeaseIsOver(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a", func(n *node, _ *Config) { n.host.rests = time.Hour })
		w.held(first)
		now, before := time.Now(), first.deadline.Load()
		if _, ok := first.Owns(7); !ok || !first.Lasts() {
			t.Fatal("it may not work")
		}
		first.deadline.Store(&now)
		if epoch, ok := first.Owns(7); ok || epoch == 0 || first.Lasts() {
			t.Errorf("work may start at epoch %d", epoch)
		}
		first.deadline.Store(before)
	})
}

// TestWhatIsTooLongToBeSaidCostsNoLease: none of it is said, until it is shorter.
func TestWhatIsTooLongToBeSaidCostsNoLease(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		calm := func(n *node, _ *Config) { n.host.rests = time.Hour }
		a, b := w.join("a", calm), w.join("b", calm)
		w.held(a, b)
		id := a.ID()
		for _, of := range []struct {
			long  int
			heard bool
		}{{longestSays, true}, {longestSays + 1, false}, {2 << 20, false}, {100, true}} {
			a.host.say(fmt.Sprintf("%q", strings.Repeat("x", of.long-len(`""`))))
			time.Sleep(2 * lasts)
			heard := b.host.hears()
			if got := len(heard) == 1 && len(heard[0]) == of.long; got != of.heard || !of.heard && len(heard) > 0 {
				t.Errorf("of %d bytes the other hears %d texts", of.long, len(heard))
			}
			if a.ID() != id {
				t.Fatalf("of %d bytes: the lease is lost", of.long)
			}
		}
		w.held(a, b)
	})
}

// TestOfTwoLivesWithOneNameTheOlderOneKeepsIt, and so its slots, whatever else their ids are made of.
func TestOfTwoLivesWithOneNameTheOlderOneKeepsIt(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		began := time.Now().UnixMilli()
		older := w.join("a")
		w.held(older)
		if id := older.ID(); id < fmt.Sprintf("a-%013d-", began) || id > fmt.Sprintf("a-%013d-z", began) {
			t.Errorf("at %d the id is %q: those of later ones may be lower", began, id)
		}
		time.Sleep(time.Millisecond)
		younger, other := w.join("a"), w.join("b")
		named := []candidate{{id: "older", name: "a"}, {id: "younger", name: "a#2"}, {id: "other", name: "b"}}
		due := map[string]int{}
		for slot := range few {
			due[winner(slot, named)]++
		}
		time.Sleep(2 * lasts)
		for id, n := range map[string]*node{"older": older, "younger": younger, "other": other} {
			if held, draining := n.Held(); held != due[id] || draining > 0 {
				t.Errorf("the %s one has %d slots, want %d", id, held, due[id])
			}
		}
		older.leave()
		w.held(younger, other)
	})
}

// TestAMemberThatLeavesTakesItsKeyWithIt, also if nothing was heard of its last renewal: else the others wait for the end
// of its lease, and show it until then.
func TestAMemberThatLeavesTakesItsKeyWithIt(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first, second := w.join("a"), w.join("b")
		w.held(first, second)
		key := memberKey(first.ID())
		renewals := 0
		first.wire.set(func(s *wire) {
			s.loses = func(written string) bool {
				if written == key {
					renewals++
				}
				return written == key && renewals == 1 // the one that says that it leaves
			}
		})
		first.leave()
		if renewals < 2 || first.wire.marker(key) == 0 {
			t.Errorf("its key is there; it was written %d times", renewals)
		}
		w.held(second)
	})
}

// del deletes a key as a person does.
func (w *world) del(key string) {
	w.Helper()
	m := nats.Msg{Subject: "$KV.shards." + key, Header: nats.Header{"KV-Operation": []string{"DEL"}}}
	if _, err := w.js.PublishMsg(w.Context(), &m); err != nil {
		w.Fatal(err)
	}
}

// slowly has the member see the next message so much later, and what follows it after that.
func (n *node) slowly(late time.Duration) {
	n.wire.set(func(s *wire) {
		s.view = func() time.Duration { defer func() { late = 0 }(); return late }
	})
}

// TestAMemberWhoseKeyIsDeletedByHandStopsBeforeAnotherTakesItsSlots: it notices at once, or at the latest with its next
// renewal, and the others wait until its lease would have ended. Within lease and two seconds all slots are at work.
func TestAMemberWhoseKeyIsDeletedByHandStopsBeforeAnotherTakesItsSlots(t *testing.T) {
	for name, late := range map[string]time.Duration{"at once": 0, "with its renewal": 2 * renews} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				first := w.join("a", func(n *node, c *Config) { n.reports(c); n.host.takes = time.Hour })
				second := w.join("b")
				w.held(first, second)
				time.Sleep(lasts + renews/2)
				its, _ := first.Held()
				id, began := first.ID(), time.Now()
				first.slowly(late)
				w.del(memberKey(id))
				time.AfterFunc(lasts-renews, func() {
					if moves, _ := first.reported(); !strings.Contains(moves, "the slots of member "+id+" are not taken before") {
						t.Errorf("it reports %q", moves)
					}
				})
				natstest.Eventually(t, "it has noticed", func() bool { return first.ID() != id })
				if took := time.Since(began); took > min(late, renews)+10*time.Millisecond {
					t.Errorf("it notices after %v", took)
				}
				w.held(first, second) // it has them itself: it is a member again, by the same name
				if took := time.Since(began); took < lasts-renews || took > lasts+time.Second {
					t.Errorf("its %d slots are at work again after %v", its, took)
				}
			})
		})
	}
}

// TestASlotWhoseKeyIsDeletedByHandRestsForALease: its owner stops at once, or its lease ends, before it is taken. That it
// rests is told as long as it does.
func TestASlotWhoseKeyIsDeletedByHandRestsForALease(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reports := func(n *node, c *Config) { n.reports(c) }
		first := w.join("a", func(n *node, _ *Config) { n.host.takes = time.Hour })
		w.held(first)
		slot := 0
		for winner(slot, []candidate{{id: "a", name: "a"}, {id: "b", name: "b"}}) != "b" {
			slot++
		}
		first.slowly(lasts - renews) // it goes on to work meanwhile
		second := w.join("b", reports)
		time.Sleep(renews / 2)
		began := time.Now()
		w.del(slotKey(slot))
		time.Sleep(10 * time.Millisecond)
		until := began.Add(lasts)
		if got := second.Status().RestsUntil; got.Before(until) || got.Sub(until) > 10*time.Millisecond {
			t.Errorf("after %v it says that slots rest until %v", time.Since(began), got.Sub(began))
		}
		for time.Since(began) < lasts-10*time.Millisecond {
			if _, ok := second.Owns(slot); ok {
				t.Fatalf("it is taken after %v", time.Since(began))
			}
			if _, rest := second.reported(); !strings.Contains(rest, "slots are not taken before "+
				second.Status().RestsUntil.UTC().Format("2006-01-02T15:04:05.000Z")) {
				t.Fatalf("after %v it reports %q", time.Since(began), rest)
			}
			time.Sleep(10 * time.Millisecond)
		}
		natstest.Eventually(t, "it is taken", func() bool { _, ok := second.Owns(slot); return ok })
		if took := time.Since(began); took > lasts+time.Second {
			t.Errorf("it is taken after %v", took)
		}
		w.held(first, second)
		if _, rest := second.reported(); rest != "" {
			t.Errorf("it goes on to report %q", rest)
		}
	})
}

// TestTheSlotsOfADeadMemberAreTakenInTimeByOneThatCameAfterItDied: that one does not know since when the lease was not
// renewed, but that the server has ended it, and not a person.
func TestTheSlotsOfADeadMemberAreTakenInTimeByOneThatCameAfterItDied(t *testing.T) {
	for name, next := range map[string]string{"under the same name": "a", "under another": "c"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				first, second := w.join("a"), w.join("b")
				w.held(first, second)
				time.Sleep(renews + time.Millisecond) // it has just renewed
				died := time.Now()
				first.wire.set(func(s *wire) { s.away = true })
				time.Sleep(lasts - renews)
				third := w.join(next)
				w.held(second, third)
				if took := time.Since(died); took > lasts+2*time.Second {
					t.Errorf("all slots are at work after %v", took)
				}
				first.wire.set(func(s *wire) { s.away = false })
			})
		})
	}
}
