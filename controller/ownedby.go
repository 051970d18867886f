package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnedBy returns, inside a reconcile, what the reconciled primary owns of one source: from is the Lister of a client,
// or a handle of package kube. What names the same owner of another installation is left out.
//
//	pages, err := controller.OwnedBy(ctx, r.pages.Lister())
//
// It reads an index of the cache, sends no request, and returns copies. The error is that of from, as one whose cache
// has not synced; or it says that ctx is not a reconcile context.
func OwnedBy[T metav1.Object](ctx context.Context, from interface {
	OwnedBy(kind, key string) ([]T, error)
}) ([]T, error) {
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return nil, errors.New("list what the primary owns: ctx is not a reconcile context: ask the lister's or " +
			"handle's own OwnedBy, with a kind and a key")
	}
	primary := r.Primary().Owner
	objects, err := from.OwnedBy(primary.Kind, primary.Key)
	if err != nil {
		return nil, fmt.Errorf("list what %s %q owns: %w", primary.Kind, primary.Key, err)
	}
	return slices.DeleteFunc(objects, func(obj T) bool { return !owner.NamedBy(obj).Allows(primary) }), nil
}
