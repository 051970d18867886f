package lease

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestALeaseThatIsRemovedByHandIsCreatedAgainByItsHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(`{"holderIdentity":"","leaseDurationSeconds":1,"leaderTransitions":6}`)
		first := firstLeads(t, k)
		before := k.record(t)
		after(10 * time.Second)
		k.remove()
		after(5 * time.Second)
		again := k.record(t)
		if again.HolderIdentity != "first" || again.LeaderTransitions != 7 ||
			!again.AcquireTime.Equal(&before.AcquireTime) {
			t.Errorf("the record is %+v, was %+v", again, before)
		}
		if len(first.served()) != 1 || !first.leads() {
			t.Errorf("terms %+v, want one that goes on", first.served())
		}
	})
}

func TestAHolderGivesUpALeaseThatAnotherCreatedAfterItWasRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		k.vanish() // and so a new replica knows of no holder
		second := k.join("second").run(t)
		after(time.Minute)
		if first.leads() || !second.leads() || !errors.Is(first.last(t).cause, errTaken) {
			t.Errorf("terms of the first %+v, of the second %+v", first.served(), second.served())
		}
		if d := first.last(t).ended.Sub(second.last(t).began); d > usual.RetryPeriod+5*latency {
			t.Errorf("the first led on for %v", d)
		}
	})
}

// TestALeaseThatVanishedIsLeftToItsHolder: a holder that does not see it works on until its term is over.
func TestALeaseThatVanishedIsLeftToItsHolder(t *testing.T) {
	for name, vanish := range map[string]func(*key){"with a marker": (*key).remove, "without": (*key).vanish} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				first := firstLeads(t, k)
				second := k.join("second").run(t)
				after(10 * time.Second)
				first.use(lost, lost)
				vanish(k)
				gone := time.Now()
				after(time.Minute)
				if first.leads() || !second.leads() {
					t.Fatalf("terms of the first %+v, of the second %+v", first.served(), second.served())
				}
				if wait := second.last(t).began.Sub(first.last(t).ended); wait <= 0 {
					t.Errorf("the second led %v before the term of the first was over", -wait)
				}
				took, most := second.last(t).began.Sub(gone), usual.Duration+2*usual.retry(1)+10*latency
				if took < usual.Duration || took > most {
					t.Errorf("the second led after %v, want %v to %v", took, usual.Duration, most)
				}
			})
		})
	}
}

// TestALeaseThatWasDeletedIsLeftToItsHolder also by a replica that never saw the holder, but a delete marker.
func TestALeaseThatWasDeletedIsLeftToItsHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		after(10 * time.Second)
		first.use(lost, lost)
		k.remove()
		second := k.join("second").run(t)
		after(time.Minute)
		if first.leads() || !second.leads() {
			t.Fatalf("terms of the first %+v, of the second %+v", first.served(), second.served())
		}
		if wait := second.last(t).began.Sub(first.last(t).ended); wait <= 0 {
			t.Errorf("the second led %v before the term of the first was over", -wait)
		}
	})
}

// TestALeaseThatMustHaveExistedIsLeftToItsHolder although nothing of it is left.
func TestALeaseThatMustHaveExistedIsLeftToItsHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		after(10 * time.Second)
		first.use(lost, lost)
		k.vanish()
		second := k.join("second")
		second.existed = true
		second.run(t)
		after(time.Minute)
		if first.leads() || !second.leads() {
			t.Fatalf("terms of the first %+v, of the second %+v", first.served(), second.served())
		}
		if wait := second.last(t).began.Sub(first.last(t).ended); wait <= 0 {
			t.Errorf("the second led %v before the term of the first was over", -wait)
		}
	})
}

// TestAFreeLeaseMayHideAHolder that took it after the backup of which it is. An operator who frees it is believed at once.
func TestAFreeLeaseMayHideAHolder(t *testing.T) {
	for name, freed := range map[string]bool{"and is left to it": false, "and an operator says that it does not": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				first := firstLeads(t, k)
				first.halt()
				second := k.join("second")
				second.existed = true
				began := time.Now()
				second.run(t)
				after(5 * time.Second)
				want := usual.Duration
				if freed {
					k.put(`{"holderIdentity":"","leaseDurationSeconds":1}`)
					want = time.Since(began)
				}
				after(time.Minute)
				if !second.leads() {
					t.Fatal("the second does not lead")
				}
				took := second.last(t).began.Sub(began)
				if most := want + usual.retry(1) + 5*latency; took < want || took > most {
					t.Errorf("the second led after %v, want %v to %v", took, want, most)
				}
			})
		})
	}
}

// TestALeaseIsNotTakenWhileItIsNotKnownWhetherOneHoldsIt and is taken once that is known.
func TestALeaseIsNotTakenWhileItIsNotKnownWhetherOneHoldsIt(t *testing.T) {
	for name, free := range map[string]bool{"absent": false, "free": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				if free {
					firstLeads(t, k).halt()
				}
				r := k.join("second")
				r.unknown.Store(true)
				r.run(t)
				after(time.Minute)
				if err := lastOf(r.reported()); r.leads() || !errors.Is(err, errUnknown) {
					t.Errorf("it leads: %v; reported %v", r.leads(), err)
				}
				r.unknown.Store(false)
				after(usual.retry(1) + 5*latency)
				if err := lastOf(r.reported()); !r.leads() || err != nil {
					t.Errorf("it leads: %v; reported %v", r.leads(), err)
				}
			})
		})
	}
}

// TestTheTimeCountsAnewAfterAnAnswerThatDidNotCome: the key may have been there meanwhile.
func TestTheTimeCountsAnewAfterAnAnswerThatDidNotCome(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		second := k.join("second").run(t)
		after(5 * time.Second)
		first.use(lost, lost)
		k.vanish()
		after(5 * time.Second) // the second has seen that it is absent
		second.use(lost, lost)
		first.heal()
		after(20 * time.Second)
		if holder := k.record(t).HolderIdentity; holder != "first" {
			t.Fatalf("the holder is %q", holder)
		}
		first.use(lost, lost)
		k.vanish()
		second.heal()
		after(time.Minute)
		if wait := second.last(t).began.Sub(first.last(t).ended); wait <= 0 {
			t.Errorf("the second led %v before the term of the first was over", -wait)
		}
	})
}

// TestADeleteMarkerIsReplacedOnlyIfItIsTheOneThatWasSeen: a newer one tells of another holder.
func TestADeleteMarkerIsReplacedOnlyIfItIsTheOneThatWasSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.remove()
		first := k.join("first")
		first.use(delayed(latency, latency), delayed(3*time.Second/2, latency))
		first.run(t)
		after(usual.Duration)
		for len(first.served()) == 0 && !slices.Contains(first.requests(), "store") {
			after(time.Second / 4)
		}
		k.remove() // while the write is on its way
		removed := time.Now()
		after(time.Minute)
		if !first.leads() {
			t.Fatal("it does not lead")
		}
		if wait := first.last(t).began.Sub(removed); wait < usual.Duration {
			t.Errorf("it led %v after the key was removed again", wait)
		}
	})
}

// TestALeaseThatVanishesTwiceIsLeftToItsHolder who has made it again between two looks of the other.
func TestALeaseThatVanishesTwiceIsLeftToItsHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		second := k.join("second").run(t)
		for range 30 {
			after(5 * time.Second)
			k.remove()
			first.removed <- struct{}{}
		}
		if len(first.served()) != 1 || !first.leads() || len(second.served()) != 0 {
			t.Errorf("terms of the first %+v, of the second %+v", first.served(), second.served())
		}
	})
}

// TestAHolderWaitsForALeaseThatVanishedAfterItsTerm: another may have had it meanwhile.
func TestAHolderWaitsForALeaseThatVanishedAfterItsTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.use(lost, lost)
		after(usual.term() + time.Second)
		k.vanish()
		healed := time.Now()
		first.heal()
		after(time.Minute)
		if wait := first.last(t).began.Sub(healed); wait < usual.Duration {
			t.Errorf("it led again after %v, want %v", wait, usual.Duration)
		}
	})
}

// TestAHolderThatIsToldThatTheLeaseVanishedLooksAtOnce, and once more if it was looking already.
func TestAHolderThatIsToldThatTheLeaseVanishedLooksAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		after(usual.RetryPeriod / 2)
		k.remove()
		first.removed <- struct{}{}
		after(10 * latency)
		if holder := k.record(t).HolderIdentity; holder != "first" {
			t.Errorf("the holder is %q soon after", holder)
		}
		first.use(delayed(latency, latency), delayed(latency, 200*time.Millisecond))
		after(usual.RetryPeriod) // a renewal has arrived, and its answer is on the way
		k.remove()
		first.removed <- struct{}{}
		after(500 * time.Millisecond)
		if holder := k.record(t).HolderIdentity; holder != "first" {
			t.Errorf("the holder is %q after the answer", holder)
		}
		if len(first.served()) != 1 || !first.leads() {
			t.Errorf("terms %+v, want one that goes on", first.served())
		}
	})
}

// TestWhereAbsentIsFreeItIsTakenAtOnce, with a marker or without, by who comes then and by who has waited.
func TestWhereAbsentIsFreeItIsTakenAtOnce(t *testing.T) {
	for name, vanish := range map[string]func(*key){"with a marker": (*key).remove, "without": (*key).vanish} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				first := firstLeads(t, k)
				first.use(lost, lost)
				second := k.join("second")
				second.absent = true
				second.run(t)
				after(3 * time.Second)
				vanish(k)
				gone := time.Now()
				after(20 * time.Second)
				if took := second.last(t).began.Sub(gone); took > 2*usual.retry(1) {
					t.Errorf("the second led after %v", took)
				}
			})
		})
	}
}
