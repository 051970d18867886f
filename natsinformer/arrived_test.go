package natsinformer

import (
	"errors"
	"testing"
)

// A list that is read while others write holds each key once: its latest good object, or nothing if it was deleted.
func TestAListHoldsTheLatestOfEachKeyInTheOrderOfArrival(t *testing.T) {
	k := newKeys()
	k.arrived = &arrived{}
	seq := uint64(0)
	put := func(key string, reason DeleteReason, err error) {
		seq++
		it := item{key: key, seq: seq, reason: reason, err: err}
		if reason == "" && err == nil {
			w := &website{}
			w.Name, w.ResourceVersion = key, formatVersion(seq)
			it.object = w
		}
		k.put(&it, newKeys())
	}
	bad := errors.New("does not decode")
	put("kept", "", nil)               // 1
	put("updated", "", nil)            // 2
	put("deleted", "", nil)            // 3
	put("back", "", nil)               // 4
	put("spoilt", "", nil)             // 5
	put("mended", "", nil)             // 6
	put("updated", "", nil)            // 7
	put("deleted", DeleteMarker, nil)  // 8
	put("back", DeleteMarker, nil)     // 9
	put("spoilt", "", bad)             // 10
	put("mended", "", bad)             // 11
	put("never-good", "", bad)         // 12
	put("mended", "", nil)             // 13
	put("back", "", nil)               // 14
	put("tombstone", PurgeMarker, nil) // 15

	var got []string
	for _, object := range k.arrived.latest() {
		got = append(got, object.(*website).Name+"@"+versionOf(object))
	}
	want := []string{"kept@1", "spoilt@5", "updated@7", "mended@13", "back@14"}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
