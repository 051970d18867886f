package natsinformer

import (
	"fmt"
	"testing"
)

func TestNewestAnchorsAreThoseProcessedLast(t *testing.T) {
	k := newKeys()
	for i := range uint64(1000) {
		seq := i*7%1000 + 1
		if key := fmt.Sprint("k", seq); seq%3 == 0 {
			k.tombs[key] = tombstone{revision: seq, created: int64(seq)}
		} else {
			k.live.set(key, known{revision: seq, created: int64(seq)})
		}
	}
	for i, a := range k.newest(64) {
		if want := uint64(1000 - i); a != (anchor{fmt.Sprint("k", want), want, int64(want)}) {
			t.Fatalf("number %d is %+v", i, a)
		}
	}
	if n := len(k.newest(5000)); n != 1000 {
		t.Errorf("%d of 1000", n)
	}
}
