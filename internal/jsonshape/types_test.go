package jsonshape

import (
	"reflect"
	"testing"
)

type (
	nowhere    *nowhere
	twice      **twice
	there      *back
	back       *there
	named      struct{ Next *named }
	toNamed    *named
	throughAny *[]throughAny
)

// TestPointersThatLeadNowhereEnd, whether they are pointed to or not.
func TestPointersThatLeadNowhereEnd(t *testing.T) {
	for of, want := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[nowhere](): nil, reflect.TypeFor[*nowhere](): nil, reflect.TypeFor[**nowhere](): nil,
		reflect.TypeFor[twice](): nil, reflect.TypeFor[*twice](): nil, reflect.TypeFor[***twice](): nil,
		reflect.TypeFor[there](): nil, reflect.TypeFor[*there](): nil, reflect.TypeFor[**back](): nil,
		reflect.TypeFor[toNamed]():         reflect.TypeFor[named](),
		reflect.TypeFor[***toNamed]():      reflect.TypeFor[named](),
		reflect.TypeFor[*throughAny]():     reflect.TypeFor[[]throughAny](),
		reflect.TypeFor[****int]():         reflect.TypeFor[int](),
		reflect.TypeFor[named]():           reflect.TypeFor[named](),
		reflect.TypeFor[map[string]*int](): reflect.TypeFor[map[string]*int](),
	} {
		if got := Pointed(of); got != want {
			t.Errorf("%v leads to %v, want %v", of, got, want)
		}
		b := memberBuilder{nodes: map[reflect.Type]*memberNode{}}
		if known := b.node(of); want == nil && known != nil {
			t.Errorf("of %v is known: %+v", of, known)
		}
	}
}
