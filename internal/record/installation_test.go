package record_test

import (
	"bytes"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shelf is a source that has objects and does nothing.
type shelf struct {
	source.Owned
	objects []metav1.Object
}

func (s *shelf) String() string               { return "Owns Page" }
func (s *shelf) All() iter.Seq[metav1.Object] { return slices.Values(s.objects) }

func (s *shelf) Elsewhere() iter.Seq[entity.ApartDocument] { return source.Whole{}.Elsewhere() }

func (*shelf) Resource() owner.Resource { return owner.ResourceOfBucket("pages") }
func (*shelf) AnyNamespace() bool       { return false }

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
	seen := record.SeenIn([]source.Owned{&s}, owner.Claim{Kind: "Site"})
	want := record.Sightings{"written": {Objects: 2, Streams: map[string]int{"first": 2}, Source: "Owns Page", Example: "a"}}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

// TestWhereProofsAreWantedAForgedIDStopsNobody. That of an installation whose proof is true does.
func TestWhereProofsAreWantedAForgedIDStopsNobody(t *testing.T) {
	var s shelf
	s.put("ours", "Site", "home", "before", true)
	s.put("forged", "Site", "home", "strange", true)
	s.put("copied", "Site", "home", "before", true)
	proofs, err := owner.NewSecrets(bytes.Repeat([]byte{'a'}, 32))
	if err != nil {
		t.Fatal(err)
	}
	owner.Prove(s.objects[0], proofs, s.Resource())
	for _, forged := range s.objects[1:] {
		forged.GetAnnotations()[entity.OwnerProofAnnotation] = s.objects[0].GetAnnotations()[entity.OwnerProofAnnotation]
	}
	seen := record.SeenIn([]source.Owned{&s}, owner.Claim{Kind: "Site", Proofs: proofs})
	want := record.Sightings{
		"before": {Objects: 1, Streams: map[string]int{"first": 1}, Source: "Owns Page", Example: "ours"},
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}
