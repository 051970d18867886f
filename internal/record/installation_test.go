package record_test

import (
	"maps"
	"slices"
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

// TestAnIDMayBeOursIfARuntimeWroteItOrItsOwnerExists. What only bears another id is another installation's.
func TestAnIDMayBeOursIfARuntimeWroteItOrItsOwnerExists(t *testing.T) {
	var s shelf
	s.put("a", "Site", "gone", "written", true)
	s.put("b", "Site", "gone", "written", false)
	s.put("c", "Site", "here", "named", false)
	s.put("d", "Site", "gone", "strange", false)
	s.put("e", "Shop", "here", "another kind's", true)
	s.put("f", "Site", "here", "", true)
	seen := record.SeenIn([]source.Owned{&s}, "Site", func(key string) bool { return key == "here" })
	if ids := slices.Sorted(maps.Keys(seen)); !slices.Equal(ids, []string{"named", "written"}) {
		t.Errorf("ids %v", ids)
	}
	if got, want := seen["written"], (record.Sighting{Objects: 2, Source: "Owns Page", Example: "a"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
