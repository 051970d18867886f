package shards

import (
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// lasting returns the runs of a slot in the order of their starts.
func (w *world) runsIn(slot int) []run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var of []run
	for _, r := range w.runs {
		if r.slot == slot {
			of = append(of, r)
		}
	}
	slices.SortFunc(of, func(a, b run) int { return a.start.Compare(b.start) })
	return of
}

// longestPause is the longest time without work in any slot since then, and where.
func (w *world) longestPause(since time.Time) (longest time.Duration, at int) {
	for slot := range few {
		last := since
		for _, r := range w.runsIn(slot) {
			if r.end.Before(since) {
				continue
			}
			if pause := r.start.Sub(last); pause > longest {
				longest, at = pause, slot
			}
			last = r.end
		}
		if pause := time.Since(last); pause > longest {
			longest, at = pause, slot
		}
	}
	return longest, at
}

func TestTheFirstMemberHasAllSlotsAtOnceAndTheNextOnesTheirShare(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		began := time.Now()
		first := w.join("a")
		w.held(first)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		second, third := w.join("b"), w.join("c", func(_ *node, c *Config) { c.Weight = 2 })
		w.held(first, second, third)
		time.Sleep(time.Minute)
		w.held(first, second, third)
	})
}

// TestAPlannedHandOverDrainsFirst: the pause for a slot is at most its longest work and 50 ms, also while the one who
// is to have it needs two seconds to load.
func TestAPlannedHandOverDrainsFirst(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a")
		w.held(first)
		time.Sleep(time.Second)
		began := time.Now()
		second := w.join("b", func(n *node, _ *Config) { n.host.loads = 2 * time.Second })
		w.held(first, second)
		time.Sleep(time.Second)
		if longest, slot := w.longestPause(began); longest > 50*time.Millisecond {
			t.Errorf("slot %d had a pause of %v", slot, longest)
		}
		began = time.Now()
		second.leave()
		w.held(first)
		time.Sleep(time.Second)
		if longest, slot := w.longestPause(began); longest > 50*time.Millisecond {
			t.Errorf("when a member left, slot %d had a pause of %v", slot, longest)
		}
	})
}

// TestAMemberThatIsCutOffStopsBeforeAnotherTakesItsSlots, and its keys run elsewhere within lease and two seconds. The
// other hears of the end of the lease from the stream, or from the clock alone (T1).
func TestAMemberThatIsCutOffStopsBeforeAnotherTakesItsSlots(t *testing.T) {
	for name, blind := range map[string]bool{"the stream tells": false, "the clock tells": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				endless := func(n *node, _ *Config) { n.host.takes = time.Hour } // R2: its work ends with the lease
				first := w.join("a", endless)
				second := w.join("b", func(n *node, _ *Config) { n.wire.blind = blind })
				w.held(first, second)
				time.Sleep(1500 * time.Millisecond)
				began := time.Now()
				first.wire.set(func(s *wire) { s.away, s.lingers = true, 2800*time.Millisecond })
				time.Sleep(lasts + 2*time.Second)
				for slot := range few {
					runs := w.runsIn(slot)
					if last := runs[len(runs)-1]; last.member != "b" || time.Since(last.end) > time.Second {
						t.Errorf("slot %d: last %s worked there, %v ago", slot, last.member, time.Since(last.end))
					}
				}
				if held, _ := second.Held(); held != few {
					t.Errorf("the other one has %d slots", held)
				}
				first.wire.set(func(s *wire) { s.away = false })
				w.held(first, second)
				if longest, slot := w.longestPause(began); longest > lasts+2*time.Second {
					t.Errorf("slot %d had a pause of %v", slot, longest)
				}
			})
		})
	}
}

// TestLostAcknowledgementsCostNoLease, of renewals, of hand-overs and of take-overs: L3.
func TestLostAcknowledgementsCostNoLease(t *testing.T) {
	inWorld(t, 7, func(w *world) {
		half := func(n *node, _ *Config) {
			answers := map[string]int{} // of each key every second one is lost
			n.wire.loses = func(key string) bool {
				answers[key]++
				return answers[key]%2 == 1
			}
		}
		first := w.join("a", half)
		w.held(first)
		id := first.life.id
		second := w.join("b", half)
		w.held(first, second)
		time.Sleep(20 * time.Second)
		w.held(first, second)
		if first.life.id != id {
			t.Error("a lost acknowledgement has cost the lease")
		}
	})
}

// TestAViewThatLacksAMemberTakesNothing: T2. A member whose view is late does not know of the lease of another who has
// slots in it already.
func TestAViewThatLacksAMemberTakesNothing(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		first := w.join("a")
		w.held(first)
		id := first.life.id
		late := w.join("b", func(n *node, _ *Config) {
			n.wire.view = func() time.Duration { return time.Duration(1+w.random.IntN(50)) * time.Millisecond }
		})
		w.held(first, late)
		for round := range 5 {
			late.leave()
			w.held(first)
			late = w.join("b", func(n *node, _ *Config) {
				n.wire.view = func() time.Duration { return time.Duration(1+w.random.IntN(50)) * time.Millisecond }
			})
			w.held(first, late)
			if first.life.id != id {
				t.Fatalf("round %d: the first member died", round)
			}
		}
	})
}

// TestIfTheNextOwnerVanishesTheOwnerGoesOn under its epoch: H5.
func TestIfTheNextOwnerVanishesTheOwnerGoesOn(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a", func(n *node, _ *Config) { n.host.takes = 30 * time.Second })
		w.held(first)
		second := w.join("b")
		natstest.Eventually(t, "the owner drains", func() bool {
			_, draining := first.Held()
			return draining > 0
		})
		second.wire.set(func(s *wire) { s.away = true })
		time.Sleep(lasts + 3*time.Second)
		if held, draining := first.Held(); held != few || draining != 0 {
			t.Errorf("it has %d slots, and drains %d", held, draining)
		}
		for slot := range few {
			if _, ok := first.Owns(slot); !ok {
				t.Errorf("slot %d is nobody's", slot)
			}
		}
		second.wire.set(func(s *wire) { s.away = false })
	})
}

// TestAMemberHasNoSlotBeforeItHasJoined, and leaves at once if it is to stop before.
func TestAMemberHasNoSlotBeforeItHasJoined(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a")
		w.held(first)
		second := w.join("b", func(n *node, _ *Config) { n.host.joins = 10 * time.Second })
		time.Sleep(9 * time.Second)
		if held, _ := second.Held(); held > 0 {
			t.Errorf("it has %d slots", held)
		}
		w.held(first, second)
		third := w.join("c", func(n *node, _ *Config) { n.host.joins = time.Hour })
		time.Sleep(5 * time.Second)
		began := time.Now()
		third.leave()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it left after %v", took)
		}
	})
}

// TestMembersHearWhatTheOthersSay at once, and no more of one that has gone.
// TestAMemberThatWaitsToJoinIsNotExpelledButAsksAgain, in the same life: each renewal of the lease that bars it expels it.
func TestAMemberThatWaitsToJoinIsNotExpelledButAsksAgain(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		a := w.join("a", func(n *node, _ *Config) { n.host.joins = 10 * time.Second })
		time.Sleep(time.Second)
		id := a.ID()
		for range 4 {
			a.Expel()
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Second) // the first wait is over
		if len(a.slotsOf()) > 0 || a.ID() != id {
			t.Errorf("after it was expelled it has %v, and is %s, as %s before", a.slotsOf(), a.ID(), id)
		}
		w.held(a)
		a.host.workMu.Lock()
		joined := a.host.joined
		a.host.workMu.Unlock()
		if joined != 2 {
			t.Errorf("it asked %d times", joined)
		}
		a.Expel()
		time.Sleep(time.Second)
		if a.ID() == id {
			t.Error("when it worked it was not expelled")
		}
	})
}

func TestMembersHearWhatTheOthersSay(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		a, b := w.join("a"), w.join("b")
		w.held(a, b)
		a.host.say(`"one"`)
		b.host.say(`{"two":2}`)
		time.Sleep(100 * time.Millisecond)
		c := w.join("c")
		w.held(a, b, c)
		a.host.say(`"again"`)
		time.Sleep(100 * time.Millisecond)
		for name, want := range map[*node][]string{a: {`{"two":2}`}, b: {`"again"`}, c: {`"again"`, `{"two":2}`}} {
			if got := name.host.hears(); !slices.Equal(got, want) {
				t.Errorf("%s hears %q, want %q", name.Name, got, want)
			}
		}
		a.leave()
		time.Sleep(100 * time.Millisecond)
		if got := c.host.hears(); len(got) != 1 {
			t.Errorf("it hears %q of one that has left", got)
		}
	})
}

// TestWhatDoesNotEndInTimeEndsWithItsContext, when its slot is handed over.
func TestWhatDoesNotEndInTimeEndsWithItsContext(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a", func(n *node, c *Config) {
			n.host.takes, c.DrainPatience = time.Hour, 5*time.Second
		})
		w.held(first)
		began := time.Now()
		second := w.join("b")
		w.held(first, second)
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the hand-over took %v", took)
		}
	})
}

// TestTheLastMemberThatLeavesLetsItsWorkEnd: there is nobody to hand a slot to.
func TestTheLastMemberThatLeavesLetsItsWorkEnd(t *testing.T) {
	for name, takes := range map[string]time.Duration{"in time": 3 * time.Second, "not in time": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				last := w.join("a", func(n *node, _ *Config) { n.host.takes = takes })
				w.held(last)
				time.Sleep(time.Second)
				began := time.Now()
				last.leave()
				// The world gives members ten seconds of grace.
				if took := time.Since(began); takes > time.Minute && took != 10*time.Second {
					t.Errorf("it has left after %v", took)
				}
				for slot := range few {
					for _, r := range w.runsIn(slot) {
						if whole := r.end.Sub(r.start) >= takes; whole != (takes < time.Minute) {
							t.Errorf("in slot %d something ran for %v", slot, r.end.Sub(r.start))
						}
						if r.start.After(began) {
							t.Errorf("in slot %d something began %v after that", slot, r.start.Sub(began))
						}
					}
				}
			})
		})
	}
}

// TestMembersWithOneNameShareTheSlots, as after a restart before the lease of the process before has ended.
func TestMembersWithOneNameShareTheSlots(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first, second := w.join("a"), w.join("a")
		natstest.Eventually(t, "both have slots", func() bool {
			one, drains := first.Held()
			other, _ := second.Held()
			return one+other == few && one > few/4 && other > few/4 && drains == 0
		})
	})
}

// TestASlotThatWasWrittenByHandIsTakenAnew under another epoch, and no work starts under the old one.
func TestASlotThatWasWrittenByHandIsTakenAnew(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a")
		w.held(first)
		before, _ := first.Owns(7)
		if _, err := w.js.Publish(w.Context(), "$KV.shards."+slotKey(7), []byte(`{"owner":"nobody"}`)); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "it is taken anew", func() bool {
			epoch, ok := first.Owns(7)
			return ok && epoch > before+1
		})
	})
}

// TestSlotsWhoseKeysVanishAreTakenAnew, whether the watch tells of that, or a write that conflicts, and in few writes.
func TestSlotsWhoseKeysVanishAreTakenAnew(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				first := w.join("a")
				w.held(first)
				before, _ := first.Owns(7)
				info, err := w.stream.Info(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				purged, last := "$KV.shards.>", info.State.LastSeq
				if told {
					purged = "$KV.shards." + slotKey(7)
				}
				if err := w.stream.Purge(w.Context(), jetstream.WithPurgeSubject(purged)); err != nil {
					t.Fatal(err)
				}
				if told {
					first.Apply(Entry{Key: slotKey(7), Revision: before, Value: nil})
				}
				natstest.Eventually(t, "it is taken anew", func() bool {
					epoch, ok := first.Owns(7)
					return ok && epoch > before
				})
				w.held(first)
				if info, err = w.stream.Info(w.Context()); err != nil || info.State.LastSeq-last > 2*few {
					t.Errorf("%d writes: %v", info.State.LastSeq-last, err)
				}
			})
		})
	}
}

// TestAViewAheadOfItsStoreIsPutRight, as after a restore that the watch has not noticed yet: what a write that conflicts
// reads from the leader counts, although its revision is older. Nothing is written or read in a loop without a pause.
func TestAViewAheadOfItsStoreIsPutRight(t *testing.T) {
	for name, of := range map[string]struct{ winner, owner string }{
		"it is to be taken": {"a", "nobody"}, "it is to be handed over": {"b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			slot, owner := 0, of.owner
			for winner(slot, []candidate{{id: "a", name: "a"}, {id: "b", name: "b"}}) != of.winner {
				slot++
			}
			inWorld(t, 1, func(w *world) {
				slow := func(n *node, _ *Config) { n.wire.latency = func() time.Duration { return time.Millisecond } }
				first := w.join("a", slow)
				w.held(first)
				if owner == "" {
					owner = first.life.id
				}
				first.Apply(Entry{Key: slotKey(slot), Revision: 1 << 40, Value: encode(owned{owner})})
				second := w.join("b", slow)
				sent := first.wire.sent("slot")
				w.held(first, second)
				time.Sleep(lasts)
				w.held(first, second)
				if n := first.wire.sent("slot") - sent; n > 2*few {
					t.Errorf("%d writes of slots", n)
				}
				w.mu.Lock()
				w.runs = slices.DeleteFunc(w.runs, func(r run) bool { return r.epoch == 1<<40 }) // there never was one
				w.mu.Unlock()
			})
		})
	}
}

// TestAnotherStoreIsJoinedAnew: the stream was removed, or put back.
func TestAnotherStoreIsJoinedAnew(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a")
		w.held(first)
		if err := w.stream.Purge(w.Context()); err != nil {
			t.Fatal(err)
		}
		first.Reset()
		if _, ok := first.Owns(7); ok {
			t.Error("work may start in a slot that nobody has")
		}
		time.Sleep(time.Second)
		w.mu.Lock()
		w.history, w.runs = nil, nil // of the store before
		w.mu.Unlock()
		first.Listed()
		w.held(first)
	})
}

// TestADeleteHidesNothingThatIsWrittenAfterIt, whatever their revisions are: it may be of the store before.
func TestADeleteHidesNothingThatIsWrittenAfterIt(t *testing.T) {
	v := newView(few)
	v.apply(Entry{Key: slotKey(1), Revision: 7, Value: encode(owned{"a"})})
	v.apply(Entry{Key: slotKey(1), Revision: 5, Value: nil})
	if v.slots[1].owner != "a" {
		t.Errorf("a late delete was taken: %+v", v.slots[1])
	}
	v.apply(Entry{Key: slotKey(1), Revision: 9, Value: nil})
	if v.slots[1].owner != "" {
		t.Errorf("a delete was not taken: %+v", v.slots[1])
	}
	v.apply(Entry{Key: slotKey(1), Revision: 3, Value: encode(owned{"b"})})
	if v.slots[1].owner != "b" {
		t.Errorf("what is there is hidden: %+v", v.slots[1])
	}
}

// TestAllViewsLeaveOutALifeThatAnotherFollows: of two lives of one member the one before may have its lease for a while.
func TestAllViewsLeaveOutALifeThatAnotherFollows(t *testing.T) {
	v := newView(few)
	v.apply(Entry{Key: memberKey("a-1"), Revision: 1, Value: encode(Member{ID: "a-1", Name: "a"})})
	v.apply(Entry{Key: memberKey("a-2"), Revision: 2, Value: encode(Member{ID: "a-2", Name: "a"})})
	if all := v.candidates(); len(all) != 2 {
		t.Errorf("two members of one name are %+v", all)
	}
	v.apply(Entry{Key: memberKey("a-2"), Revision: 3, Value: encode(Member{ID: "a-2", Name: "a", Follows: "a-1"})})
	if all := v.candidates(); len(all) != 1 || all[0].id != "a-2" || all[0].name != "a" {
		t.Errorf("one member with two lives is %+v", all)
	}
}

// TestASlotIsNotHandedToAndFro by two members whose views differ, as fast as they can.
func TestASlotIsNotHandedToAndFro(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		slow := func(n *node, _ *Config) { n.wire.latency = func() time.Duration { return time.Millisecond } }
		first := w.join("a", slow)
		w.held(first) // and so it is ready for all
		second := w.join("b", slow)
		w.held(first, second)
		time.Sleep(renews/10 + 2*time.Second)
		// Each sees the other with more weight, and so finds it to be the winner of most slots.
		for _, n := range []*node{first, second} {
			other := first
			if n == first {
				other = second
			}
			n.mu.Lock()
			id := other.life.id
			n.view.members[id].Weight = 1000
			n.among = ""
			n.mu.Unlock()
			n.look()
		}
		sent := first.wire.sent("slot") + second.wire.sent("slot")
		time.Sleep(renews * 8 / 10) // then both renew, and say what their weights are
		if n := first.wire.sent("slot") + second.wire.sent("slot") - sent; n > 2*few {
			t.Errorf("%d slots were handed over", n)
		}
	})
}

// TestCalmMembersWriteTheirLeasesAlone.
func TestCalmMembersWriteTheirLeasesAlone(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var all []*node
		for _, name := range []string{"a", "b", "c", "d"} {
			all = append(all, w.join(name))
		}
		w.held(all...)
		time.Sleep(time.Second)
		info, err := w.stream.Info(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := info.State.LastSeq
		time.Sleep(time.Minute)
		if info, err = w.stream.Info(w.Context()); err != nil {
			t.Fatal(err)
		}
		if n := info.State.LastSeq - before; n > 4*61 {
			t.Errorf("%d writes in a minute", n)
		}
	})
}

// TestNoSlotIsTakenFromTheOwnersOfAYoungStore for as long as a lease lasts since it was made: T4. Slots that nobody had
// are taken at once.
func TestNoSlotIsTakenFromTheOwnersOfAYoungStore(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		if _, err := w.js.Publish(w.Context(), "$KV.shards.slot.5", encode(owned{"gone"})); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		only := w.join("a", func(n *node, _ *Config) { n.host.young = time.Second })
		time.Sleep(lasts - time.Second - time.Millisecond)
		if held, _ := only.Held(); held != few-1 {
			t.Errorf("it has %d slots, want all but one of %d", held, few)
		}
		w.held(only)
		if took := time.Since(began); took < lasts-time.Second || took > lasts-time.Second+retryPause {
			t.Errorf("it has all after %v", took)
		}
	})
}
