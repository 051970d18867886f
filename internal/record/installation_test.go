package record_test

import (
	"reflect"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shelf is a source that has objects and does nothing.
type shelf struct {
	source.Owned
	objects []metav1.Object
}

func (s *shelf) String() string       { return "Owns Page" }
func (s *shelf) All() []metav1.Object { return s.objects }

// put adds an object of an owner in an installation; stamped objects carry a revision of it.
func (s *shelf) put(name, kind, owner, instance string, stamped bool) {
	obj := &metav1.ObjectMeta{Name: name}
	entity.SetOwner(obj, kind, owner, instance)
	if stamped {
		obj.Annotations[entity.OwnerRevisionAnnotation] = "7@first"
	}
	s.objects = append(s.objects, obj)
}

// TestAnIDCountsWhereARuntimeWroteIt. What only bears another id stops nobody.
func TestAnIDCountsWhereARuntimeWroteIt(t *testing.T) {
	var s shelf
	s.put("a", "Site", "home", "written", true)
	s.put("b", "Site", "shop", "written", true)
	s.put("c", "Site", "home", "strange", false)
	s.put("d", "Shop", "home", "another kind's", true)
	s.put("e", "Site", "home", "", true)
	seen := record.SeenIn([]source.Owned{&s}, "Site")
	want := record.Sightings{"written": {Objects: 2, Streams: map[string]int{"first": 2}, Source: "Owns Page", Example: "a"}}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}
