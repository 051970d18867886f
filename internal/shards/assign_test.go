package shards

import (
	"fmt"
	"testing"
)

const slots = 1024

func named(weights ...int) (all []candidate) {
	for i, weight := range weights {
		name := fmt.Sprint("web-", i)
		all = append(all, candidate{id: name + "-id", name: name, weight: weight})
	}
	return all
}

func shares(all []candidate) map[string]int {
	n := map[string]int{}
	for slot := range slots {
		n[winner(slot, all)]++
	}
	return n
}

func TestSlotsAreSharedByWeight(t *testing.T) {
	for _, weights := range [][]int{{1, 1}, {1, 1, 1, 1}, {1, 3}, {2, 1, 1}} {
		all, sum := named(weights...), 0
		for _, weight := range weights {
			sum += weight
		}
		for id, n := range shares(all) {
			var weight int
			for _, c := range all {
				if c.id == id {
					weight = c.weight
				}
			}
			want := slots * weight / sum
			if n < want*80/100 || n > want*120/100 {
				t.Errorf("of the weights %v %s has %d slots, want about %d", weights, id, n, want)
			}
		}
	}
}

// TestNoMoreSlotsMoveThanMust: who comes takes from the others, and who goes leaves to the others.
func TestNoMoreSlotsMoveThanMust(t *testing.T) {
	before, after := named(1, 1, 1), named(1, 1, 1, 1)
	moved := 0
	for slot := range slots {
		was, is := winner(slot, before), winner(slot, after)
		if was == is {
			continue
		}
		moved++
		if is != after[3].id {
			t.Fatalf("slot %d moves from %s to %s", slot, was, is)
		}
	}
	if moved < slots/4*80/100 || moved > slots/4*120/100 {
		t.Errorf("%d slots of %d move to the fourth member", moved, slots)
	}
}

// TestTheOrderOfAViewDoesNotMatter, or two members would each take the other for the one who is to have a slot.
func TestTheOrderOfAViewDoesNotMatter(t *testing.T) {
	all := named(1, 2, 1, 3)
	other := []candidate{all[2], all[0], all[3], all[1]}
	for slot := range slots {
		if a, b := winner(slot, all), winner(slot, other); a != b {
			t.Fatalf("slot %d goes to %s or to %s", slot, a, b)
		}
	}
	if winner(1, nil) != "" {
		t.Error("somebody wins where nobody is")
	}
}

// TestTheSlotOfAKeyNeverChanges: old and new replicas take turns.
func TestTheSlotOfAKeyNeverChanges(t *testing.T) {
	for key, want := range map[string]int{"home": 654, "shop/home": 685, "": 453, "a": 300} {
		if got := SlotOf(key, slots); got != want {
			t.Errorf("%q is in slot %d, want %d", key, got, want)
		}
	}
}
