package entity

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// TestReasonsOfInvalidKeysAreBounded also where each key gets another revision.
func TestReasonsOfInvalidKeysAreBounded(t *testing.T) {
	keys, why := newInvalidKeys(), errors.New("why")
	const more = 100
	for revision := range uint64(2) {
		for i := range reasonsKept + more {
			keys.set(fmt.Sprint(i), revision, why)
		}
	}
	shared := 0
	for _, state := range keys.all() {
		if errors.Is(state.err, natsinformer.ErrManyInvalid) {
			shared++
		}
	}
	if shared != more {
		t.Errorf("%d keys share a reason, want %d", shared, more)
	}
	for i := range more + 1 {
		keys.remove(fmt.Sprint(i))
	}
	keys.set(fmt.Sprint(reasonsKept), 3, why)
	if state, _ := keys.get(fmt.Sprint(reasonsKept)); state.err != why || state.revision != 3 {
		t.Errorf("it is %+v, and there is room again", state)
	}
}
