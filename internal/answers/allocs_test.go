//go:build !race

package answers_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/answers"
)

func TestAllocationsOfADocumentThatIsNoAnswer(t *testing.T) {
	document := []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"stream":"x"}}`)
	if n := testing.AllocsPerRun(100, func() { answers.Is(nil, document) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
