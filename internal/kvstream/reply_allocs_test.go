//go:build !race

package kvstream_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/kvstream"
)

func TestAllocationsOfADocumentThatIsNoAnswer(t *testing.T) {
	document := []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"stream":"x"}}`)
	if n := testing.AllocsPerRun(100, func() { kvstream.IsReply(nil, document) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
