package reconcilectx_test

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type reconcile struct{ reconcilectx.Reconcile }

func TestAReconcileIsFoundInItsContextAndInNoOther(t *testing.T) {
	r := &reconcile{}
	ctx, cancel := context.WithCancel(reconcilectx.With(t.Context(), r))
	defer cancel()
	if got, ok := reconcilectx.Of(ctx); !ok || got != reconcilectx.Reconcile(r) {
		t.Errorf("got %v, %v", got, ok)
	}
	if got, ok := reconcilectx.Of(t.Context()); ok || got != nil {
		t.Errorf("outside of a reconcile: got %v, %v", got, ok)
	}
}

// TestAStampGoesWithItsOwner: what was another's carries a revision of another document.
func TestAStampGoesWithItsOwner(t *testing.T) {
	first := reconcilectx.Primary{
		Owner: owner.Owner{Kind: "Site", Key: "home", Instance: "here"}, Stamp: owner.Stamp{Stream: "s", Revision: 10},
	}
	second := first
	second.Key, second.Stamp.Revision = "shop", 20
	obj := &metav1.ObjectMeta{Name: "x"}
	first.Own(obj)
	first.Stamp.Revision = 12
	first.Own(obj)
	if got := owner.StampOf(obj).Revision; got != 10 {
		t.Errorf("its owner's next revision made %d of 10", got)
	}
	second.Own(obj)
	if got := owner.StampOf(obj).Revision; got != 20 {
		t.Errorf("another owner left revision %d", got)
	}
	entity.SetOwner(obj, "Site", "third", "here")
	if got := owner.StampOf(obj); !got.IsNone() {
		t.Errorf("a third owner, of whose revision nothing is known, left %+v", got)
	}
}

func TestOwnNamesTheWholePrimary(t *testing.T) {
	obj := &metav1.ObjectMeta{Name: "x"}
	reconcilectx.Primary{Owner: owner.Owner{Kind: "Site", Key: "shop/home", Instance: "here"}}.Own(obj)
	kind, key, ok := entity.OwnerOf(obj)
	if instance := entity.InstanceOf(obj); !ok || kind != "Site" || key != "shop/home" || instance != "here" {
		t.Errorf("owner is %s %q of %q (%v)", kind, key, instance, ok)
	}
}

// TestAnObjectKeepsTheControllerThatWroteIt for its owner: of two that name the owner in turn each would make it another.
func TestAnObjectKeepsTheControllerThatWroteIt(t *testing.T) {
	home := reconcilectx.Primary{Owner: owner.Owner{Kind: "Site", Key: "home", Instance: "here"}, Writer: "status-a"}
	obj := &metav1.ObjectMeta{Name: "x"}
	home.Own(obj)
	home.Writer = "status-b"
	home.Own(obj)
	if got := owner.WriterOf(obj); got != "status-a" {
		t.Errorf("it is said to be written by %q", got)
	}
	home.Key = "shop"
	home.Own(obj)
	if got := owner.WriterOf(obj); got != "status-b" {
		t.Errorf("for another owner it is said to be written by %q", got)
	}
}
