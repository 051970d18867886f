package natsinformer

import (
	"cmp"
	container "container/heap"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// known is what the informer keeps of a key that exists.
type known struct {
	revision uint64
	created  int64          // nanoseconds; a restored stream can have another revision of the same number
	object   runtime.Object // the one in the store, nil if no revision of the key ever decoded
}

// tombstone is what the informer keeps of a key whose last message is a marker. The server still counts it as a
// subject, and a list reads it again.
type tombstone struct {
	revision uint64
	created  int64
	reason   DeleteReason
	ordered  bool  // it is the marker of a client's delete, or has come in the place of one
	expires  int64 // nanoseconds, zero if never
}

// Limits of what is kept of revisions that do not decode. A writer can make any number of them.
const (
	// reasonsKept is of how many keys the reason is kept.
	reasonsKept = 10_000
	// valuesKept is how many bytes of their values wait for a report, while a list is read.
	valuesKept = 16 << 20
)

// ErrManyInvalid is the reason of keys that do not decode in a bucket where more than 10,000 keys do not.
var ErrManyInvalid = errors.New("it does not decode, as more than 10,000 other keys of the bucket do not, " +
	"so the reason is not kept")

// invalid is a revision that did not decode. Its value and header are dropped after the report.
type invalid struct {
	entry Entry
	err   error
}

// keys is the state of the stream as far as it was processed, by key as in NATS.
type keys struct {
	live    table
	tombs   map[string]tombstone
	invalid map[string]invalid // each of them is live too
	expires *deadlines         // of those that have a TTL of their own

	unreported int // bytes of the values of invalid revisions that were not reported yet

	maxAge  time.Duration // the stream's age limit when it was listed, zero for none
	arrived *arrived      // while a first list is read, else nil
}

// anchor is a message that identifies a stream: a stream with another message in its place is another stream.
type anchor struct {
	key     string
	seq     uint64
	created int64
}

func newKeys() *keys {
	return &keys{
		tombs: map[string]tombstone{}, invalid: map[string]invalid{},
		expires: newDeadlines(),
	}
}

// newest returns the n messages processed last that were not replaced since, newest first.
func (k *keys) newest(n int) []anchor {
	var heap anchors // the oldest of them first
	add := func(a anchor) {
		if len(heap) == n && a.seq < heap[0].seq {
			return
		}
		container.Push(&heap, a)
		if len(heap) > n {
			container.Pop(&heap)
		}
	}
	for key, l := range k.live.all() {
		add(anchor{key, l.revision, l.created})
	}
	for key, t := range k.tombs {
		add(anchor{key, t.revision, t.created})
	}
	slices.SortFunc(heap, func(a, b anchor) int { return cmp.Compare(b.seq, a.seq) })
	return heap
}

// anchors is a heap.
type anchors []anchor

func (a anchors) Len() int           { return len(a) }
func (a anchors) Less(i, j int) bool { return a[i].seq < a[j].seq }
func (a anchors) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *anchors) Push(x any)        { *a = append(*a, x.(anchor)) }
func (a *anchors) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// at returns which message of the key was processed last, zeros if none.
func (k *keys) at(key string) (revision uint64, created int64) {
	if l, ok := k.live.get(key); ok {
		return l.revision, l.created
	}
	t := k.tombs[key]
	return t.revision, t.created
}

// refuse notes a revision that does not decode.
func (k *keys) refuse(it *item) {
	k.reported(it.key) // of its revision before
	bad := invalid{it.entry(), it.err}
	if before, was := k.invalid[it.key]; len(k.invalid) >= reasonsKept && (!was || before.err == ErrManyInvalid) {
		bad.err = ErrManyInvalid
	}
	if k.unreported+len(bad.entry.Value) > valuesKept {
		bad.entry.Value, bad.entry.Header = nil, nil
	}
	k.unreported += len(bad.entry.Value)
	k.invalid[it.key] = bad
}

// accept forgets that a key did not decode.
func (k *keys) accept(key string) {
	if len(k.invalid) > 0 {
		k.reported(key)
		delete(k.invalid, key)
	}
}

// forget removes a key of which the server has nothing any more.
func (k *keys) forget(key string) {
	k.live.delete(key)
	k.accept(key)
	k.expires.drop(key)
}

// reported drops the value and header of an invalid revision: after the report they are not asked for again.
func (k *keys) reported(key string) {
	if bad, is := k.invalid[key]; is {
		k.unreported -= len(bad.entry.Value)
		bad.entry.Value, bad.entry.Header = nil, nil
		k.invalid[key] = bad
	}
}

// subjects returns how many subjects the server has if it has exactly these keys.
func (k *keys) subjects() int { return k.live.len() + len(k.tombs) }

// revisionOf returns the revision the key was last seen at, zero if never.
func (k *keys) revisionOf(key string) uint64 {
	revision, _ := k.at(key)
	return revision
}
