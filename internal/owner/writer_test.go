package owner_test

import (
	"maps"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
)

func TestAWriterIsReadAsItWasSet(t *testing.T) {
	obj := stamped("7@first")
	shared := obj.GetAnnotations()
	before := maps.Clone(shared)
	owner.SetWriter(obj, "sites-status")
	if got := owner.WriterOf(obj); got != "sites-status" || owner.StampOf(obj).Revision != 7 {
		t.Errorf("the writer is %q, the stamp %+v", got, owner.StampOf(obj))
	}
	if !maps.Equal(shared, before) {
		t.Errorf("the map that it may share was changed: %v", shared)
	}
	owner.SetWriter(obj, "")
	if got := owner.WriterOf(obj); got != "sites-status" {
		t.Errorf("nobody made it %q", got)
	}
}

// TestAWriterGoesWithItsOwner: who wrote an object for another owner says nothing about this one.
func TestAWriterGoesWithItsOwner(t *testing.T) {
	obj := stamped("")
	entity.SetOwner(obj, "Site", "home", "here")
	owner.SetWriter(obj, "sites-status")
	entity.SetOwner(obj, "Site", "home", "here")
	if got := owner.WriterOf(obj); got != "sites-status" {
		t.Errorf("its own owner left %q", got)
	}
	for _, other := range []owner.Owner{
		{Kind: "Shop", Key: "home", Instance: "here"}, {Kind: "Site", Key: "shop", Instance: "here"},
		{Kind: "Site", Key: "home", Instance: "there"},
	} {
		given := obj.DeepCopy()
		other.Own(given)
		if got := owner.WriterOf(given); got != "" {
			t.Errorf("%+v left %q", other, got)
		}
	}
}
