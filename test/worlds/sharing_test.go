package worlds

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestANightWithShares has each thing that happens only where replicas share the keys. A replica whose view stands still
// takes no slots of one that works, and those of one that is killed are taken in time.
func TestANightWithShares(t *testing.T) {
	p := Plan{
		Seed: 1, Replicas: 2, Workers: 1, Keys: 8, Resync: time.Minute, Compare: 30 * time.Second,
		Length: 2 * time.Minute, Shards: 8,
	}
	for i := range p.Keys {
		p.Events = append(p.Events, Event{At: 2 * time.Second, Do: put, Key: p.Key(i), Dice: uint64(i)})
	}
	for i, e := range []Event{
		{At: 3 * time.Second, Do: lateViews, For: time.Minute},
		{At: 3 * time.Second, Do: join, For: 10 * time.Second},
		{At: 3 * time.Second, Step: slotGiven, When: after, Do: lostAcks, Who: Doer},
		{At: 20 * time.Second, Do: oldViews, For: 30 * time.Second},
		{At: 55 * time.Second, Do: leave, For: 5 * time.Second},
		{At: 65 * time.Second, Do: kill, Who: 1, For: 25 * time.Second},
		{At: 65 * time.Second, Step: slotTaken, When: after, Do: lostAcks, Who: Doer},
		{At: 100 * time.Second, Step: memberRenews, When: after, Do: lostAcks, Who: Doer},
		{At: 110 * time.Second, Do: put, Key: p.Key(0)},
	} {
		e.Dice = uint64(i)
		p.Events = append(p.Events, e)
	}
	sortEvents(p.Events)
	broken, lines := play(t, sites, p)
	if len(broken) > 0 {
		t.Errorf("broken: %s\n%s", list(broken), around(broken[0], lines))
	}
	if i := slices.IndexFunc(lines, func(l line) bool { return l.by == "event" && l.at >= p.Length }); i >= 0 {
		t.Errorf("it did not happen: %s", lines[i].says)
	}
	var seen, last int
	for _, l := range lines {
		_, _ = fmt.Sscanf(l.says, "of stream 1 of sites-status %d messages were seen, and the last is %d", &seen, &last)
	}
	if last == 0 || seen < last*9/10 { // who is slow may miss what is written over at once
		t.Errorf("%d of %d messages of the status bucket were seen, so the rules show little", seen, last)
	}
}

// TestAPlanWithSharesHasWhatThatOfItsSeedHas, and acknowledgements that are lost at each step of a member.
func TestAPlanWithSharesHasWhatThatOfItsSeedHas(t *testing.T) {
	for seed := range uint64(20) {
		p := PlanOf(seed)
		shared := p.Sharing(16)
		rest := slices.Clone(shared.Events)
		for _, e := range p.Events {
			i := slices.Index(rest, e)
			if i < 0 {
				t.Fatalf("seed %d: %s is missing", seed, e)
			}
			rest = slices.Delete(rest, i, i+1)
		}
		for _, s := range sharingSteps {
			if !slices.ContainsFunc(rest, func(e Event) bool { return e.Step == s && e.When == after && e.Do == lostAcks }) {
				t.Errorf("seed %d loses no acknowledgement of %q", seed, s)
			}
		}
		if shared.String() != PlanOf(seed).Sharing(16).String() {
			t.Errorf("two plans of seed %d", seed)
		}
	}
}
