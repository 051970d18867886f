package natsinformer

import (
	"hash/maphash"
	"iter"
)

// table is a map from keys to what is known of them. It takes half the memory of Go's: the entries lie in blocks
// without gaps, and the index has four bytes for each place. There may be three entries for each primary of a process.
// The zero value is empty. It may be read concurrently.
type table struct {
	blocks [][]tableEntry // all but the last are full
	index  []uint32       // by hash, and behind it while that is taken: 1 + the number of the entry; 0: free
	n      int
}

type tableEntry struct {
	key string
	known
}

const (
	tableBlock = 170 // as many as fit into the 8 KiB that the runtime gives out; 171 would take 9
	tableLeast = 16  // places of an index
)

var tableSeed = maphash.MakeSeed()

func (t *table) len() int { return t.n }

func (t *table) entry(number int) *tableEntry { return &t.blocks[number/tableBlock][number%tableBlock] }

// place returns where in the index a key is, or would be; found says which. There is a free place.
func (t *table) place(key string) (at int, found bool) {
	mask := len(t.index) - 1
	for at = int(maphash.String(tableSeed, key)) & mask; t.index[at] != 0; at = (at + 1) & mask {
		if t.entry(int(t.index[at])-1).key == key {
			return at, true
		}
	}
	return at, false
}

func (t *table) get(key string) (k known, ok bool) {
	if t.n == 0 {
		return known{}, false
	}
	at, found := t.place(key)
	if !found {
		return known{}, false
	}
	return t.entry(int(t.index[at]) - 1).known, true
}

func (t *table) set(key string, k known) {
	if (t.n+1)*4 > len(t.index)*3 {
		t.reindex(max(tableLeast, 2*len(t.index)))
	}
	at, found := t.place(key)
	if found {
		t.entry(int(t.index[at]) - 1).known = k
		return
	}
	if t.n == len(t.blocks)*tableBlock {
		t.blocks = append(t.blocks, make([]tableEntry, tableBlock))
	}
	*t.entry(t.n) = tableEntry{key, k}
	t.n++
	t.index[at] = uint32(t.n)
}

// delete puts the last entry into the place of the one that goes.
func (t *table) delete(key string) {
	if t.n == 0 {
		return
	}
	at, found := t.place(key)
	if !found {
		return
	}
	gone, last := int(t.index[at])-1, t.entry(t.n-1)
	if gone != t.n-1 {
		ofLast, _ := t.place(last.key)
		t.index[ofLast] = uint32(gone + 1)
		*t.entry(gone) = *last
	}
	*last = tableEntry{}
	t.n--
	if t.n%tableBlock == 0 {
		t.blocks = t.blocks[:t.n/tableBlock]
	}
	t.free(at)
	if small := len(t.index) / 2; t.n*8 < len(t.index) && small >= tableLeast {
		t.reindex(small)
	}
}

// free empties a place of the index, and moves those behind it that would not be found across the gap.
func (t *table) free(gap int) {
	mask := len(t.index) - 1
	for at := (gap + 1) & mask; t.index[at] != 0; at = (at + 1) & mask {
		wants := int(maphash.String(tableSeed, t.entry(int(t.index[at])-1).key)) & mask
		if (at-wants)&mask >= (at-gap)&mask {
			t.index[gap], gap = t.index[at], at
		}
	}
	t.index[gap] = 0
}

// reindex makes an index of so many places, a power of two.
func (t *table) reindex(places int) {
	t.index = make([]uint32, places)
	for number := range t.n {
		at, _ := t.place(t.entry(number).key)
		t.index[at] = uint32(number + 1)
	}
}

// all are the entries, in no order. The table must not be changed meanwhile.
func (t *table) all() iter.Seq2[string, known] {
	return func(yield func(string, known) bool) {
		for number := range t.n {
			if e := t.entry(number); !yield(e.key, e.known) {
				return
			}
		}
	}
}
