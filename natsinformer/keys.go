package natsinformer

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// known is what the informer keeps of a key that exists.
type known struct {
	revision uint64
	created  int64          // of the revision, nanoseconds: tells a revision from one of the same number in a restored stream
	object   runtime.Object // the one in the store, nil if no revision of the key ever decoded
}

// tombstone is what it keeps of a key whose last message is a marker: the server still counts it as a subject, and a
// list reads it again.
type tombstone struct {
	revision uint64
	reason   DeleteReason
	expires  int64 // nanoseconds, zero if never
}

// invalid is a revision that did not decode.
type invalid struct {
	entry Entry
	err   error
}

// keys is the state of the stream as far as it was processed, by key as in NATS.
type keys struct {
	live    map[string]known
	tombs   map[string]tombstone
	invalid map[string]invalid // each of them is live too
	// anchors are the messages processed last, newest last: a stream that has other ones at their sequences is
	// another stream.
	anchors [16]anchor
	anchor  int
}

type anchor struct {
	key     string
	seq     uint64
	created int64
}

func newKeys() *keys {
	return &keys{live: map[string]known{}, tombs: map[string]tombstone{}, invalid: map[string]invalid{}}
}

func (k *keys) remember(it *item) {
	k.anchors[k.anchor%len(k.anchors)] = anchor{it.key, it.seq, it.created}
	k.anchor++
}

// randomAnchors is how many keys are compared besides those that were processed last.
const randomAnchors = 16

// sampleAnchors returns the messages processed last, one per key, and some of other keys, which the random order of a
// map picks.
func (k *keys) sampleAnchors() []anchor {
	var list []anchor
	seen := map[string]bool{}
	for i := 1; i <= min(k.anchor, len(k.anchors)); i++ {
		a := k.anchors[(k.anchor-i)%len(k.anchors)]
		if !seen[a.key] {
			seen[a.key] = true
			list = append(list, a)
		}
	}
	for key, l := range k.live {
		if len(list) >= len(k.anchors)+randomAnchors {
			break
		}
		if !seen[key] {
			list = append(list, anchor{key, l.revision, l.created})
		}
	}
	return list
}

// subjects is how many subjects the server has if it has exactly these keys.
func (k *keys) subjects() int { return len(k.live) + len(k.tombs) }

// revisionOf is the revision the key was last seen at, zero if never.
func (k *keys) revisionOf(key string) uint64 {
	if l, ok := k.live[key]; ok {
		return l.revision
	}
	return k.tombs[key].revision
}
