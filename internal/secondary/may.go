package secondary

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mayUpdate refuses, inside a reconcile, an entity that is not the reconciled primary's.
func mayUpdate(ctx context.Context, kind string, existing metav1.Object) error {
	if r, ok := current.Of(ctx); ok {
		return mayOwn(kind, existing, r.Primary().Owner)
	}
	return nil
}

// mayOwn refuses an entity that is not the primary's: its marks name another owner, or none. Each label counts where
// its annotation is gone; the original Kumori runtime sets labels alone. An owner that is named without an installation
// counts as one of this installation.
func mayOwn(kind string, existing metav1.Object, primary owner.Owner) error {
	marks, object := owner.NamedBy(existing), source.ObjectKey(existing)
	if marks.Allows(primary) {
		return nil
	}
	if marks.IsNone() {
		return &ResourceExistsError{Kind: kind, Key: object}
	}
	named := marks.Owner()
	return &AlreadyOwnedError{
		Object: object, OwnerKind: named.Kind, OwnerKey: named.Key, OwnerInstance: named.Instance,
		WantedKind: primary.Kind, WantedKey: primary.Key, WantedInstance: primary.Instance,
	}
}
