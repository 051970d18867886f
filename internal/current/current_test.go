package current_test

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type reconcile struct{ current.Reconcile }

func TestAReconcileIsFoundInItsContextAndInNoOther(t *testing.T) {
	r := &reconcile{}
	ctx, cancel := context.WithCancel(current.With(t.Context(), r))
	defer cancel()
	if got, ok := current.Of(ctx); !ok || got != current.Reconcile(r) {
		t.Errorf("got %v, %v", got, ok)
	}
	if got, ok := current.Of(t.Context()); ok || got != nil {
		t.Errorf("outside of a reconcile: got %v, %v", got, ok)
	}
}

func TestOwnNamesTheWholePrimary(t *testing.T) {
	obj := &metav1.ObjectMeta{Name: "x"}
	current.Primary{Owner: owner.Owner{Kind: "Site", Key: "shop/home", Instance: "here"}}.Own(obj)
	kind, key, ok := entity.OwnerOf(obj)
	if instance := entity.InstanceOf(obj); !ok || kind != "Site" || key != "shop/home" || instance != "here" {
		t.Errorf("owner is %s %q of %q (%v)", kind, key, instance, ok)
	}
}
