package natsinformer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestTheTableIsAMap: whatever is set and deleted, it has what a map of Go has.
func TestTheTableIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var table table
		want := map[string]known{}
		for step := range 6000 {
			key := fmt.Sprint("k", random.IntN(1500))
			sets := 60
			if step > 4000 {
				sets = 10 // it becomes small again
			}
			if k := (known{revision: uint64(step), created: 1}); random.IntN(100) < sets {
				table.set(key, k)
				want[key] = k
			} else {
				table.delete(key)
				delete(want, key)
			}
			if table.len() != len(want) {
				t.Fatalf("seed %d, step %d: %d entries, want %d", seed, step, table.len(), len(want))
			}
			got, ok := table.get(key)
			if k, is := want[key]; ok != is || got != k {
				t.Fatalf("seed %d, step %d: %s is %v, %v, want %v, %v", seed, step, key, got, ok, k, is)
			}
		}
		if got := maps.Collect(table.all()); !maps.Equal(got, want) {
			t.Fatalf("seed %d: it has %d entries, want %d, or others", seed, len(got), len(want))
		}
		for key, k := range want {
			if got, ok := table.get(key); !ok || got != k {
				t.Fatalf("seed %d: %s is %v, %v, want %v", seed, key, got, ok, k)
			}
		}
		if places := len(table.index); places > 16*max(1, len(want)) {
			t.Errorf("seed %d: an index of %d places for %d entries", seed, places, len(want))
		}
	}
}

func TestAnEmptyTableHasNothing(t *testing.T) {
	var table table
	table.delete("a")
	if _, ok := table.get("a"); ok || table.len() != 0 {
		t.Error("it has something")
	}
	for range table.all() {
		t.Error("it has entries")
	}
}

// TestABlockOfATableFillsTheMemoryThatItTakes: 8 KiB, of which the runtime has eight bytes.
func TestABlockOfATableFillsTheMemoryThatItTakes(t *testing.T) {
	const entry, class = unsafe.Sizeof(tableEntry{}), 8192
	if taken := 8 + tableBlock*entry; taken > class || taken+entry <= class {
		t.Errorf("a block of %d entries has %d bytes: it takes more than %d, or has room for another", tableBlock, taken, class)
	}
}

func TestAVersionIsToldWithoutMakingOne(t *testing.T) {
	for _, revision := range []uint64{0, 7, 123_456, 1<<64 - 1} {
		if version := formatVersion(revision); !isVersion(version, revision) || isVersion(version+"0", revision) ||
			testing.AllocsPerRun(100, func() { isVersion(version, revision) }) > 0 {
			t.Errorf("%d is not told by %q, or memory is taken for it", revision, version)
		}
	}
}
