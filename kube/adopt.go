package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/retry"
	"github.com/nagi-runtime/nagi/internal/secondary"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdoptOrFail makes the object with obj's name and namespace the primary's, if it has no owner: it names none, and
// no Kubernetes object controls it by an ownerReference. Only owner labels and annotations are written.
//
// Nothing is written if there is no such object, or if it is the primary's already. If it is anybody else's, the error
// is a *ResourceExistsError, and an event on the primary says so. The write is a compare-and-set: of several who want
// the object one gets it.
//
// Call it before the Apply or CreateOrUpdate of the same obj, which refuse an object that is not adopted. It needs an
// owner: a reconcile's context, or an obj that names one.
func (k *Handle[T]) AdoptOrFail(ctx context.Context, obj T) error {
	key := source.ObjectKey(obj)
	desired := mergediff.CopyOf(obj)
	claim, stamp, refused := k.claimIn(ctx, desired, secondary.Options{})
	primary := claim.Owner
	stamp.Set(desired)
	claim.SetWriter(desired)
	manager, err := k.managerIn(ctx)
	if err = cmp.Or(err, refused); err == nil && primary.IsNone() {
		err = errors.New("there is no owner to adopt it for: " +
			"call it with a reconcile's context, or set the owner of the object (SetOwner)")
	}
	if err != nil {
		return fmt.Errorf("adopt %s %q: %w", kubeapi.ResourceName(k.resource), key, err)
	}
	// Where the cache has nothing there may be something all the same: an informer may be confined to what is owned.
	if existing := k.seen(ctx, key); existing != nil && k.mayWrite(ctx, key, primary, manager, existing) == nil {
		return nil
	}
	for tries := 0; ; tries++ {
		live, err := k.live(ctx, key)
		if err != nil || live == nil {
			return err
		}
		err = k.adopt(ctx, live, desired, primary, manager)
		again := retry.IsOvertaken(err)
		_, foreign := errors.AsType[*controller.ResourceExistsError](err)
		if foreign {
			again = claim.Await(ctx)
		}
		if again && retry.Pause(ctx, tries) {
			continue
		}
		if foreign {
			claim.Tell(ctx, err)
			return err
		}
		return k.explain("adopt", key, err)
	}
}

func (k *Handle[T]) adopt(
	ctx context.Context, live metav1.Object, desired T, primary owner.Owner, manager string,
) error {
	key := source.ObjectKey(live)
	if err := k.mayWrite(ctx, key, primary, manager, live); err == nil {
		return nil
	}
	if named := owner.NamedBy(live); !named.IsNone() || named.Denies(primary) || metav1.GetControllerOf(live) != nil {
		return k.exists(live, primary)
	}
	_, err := k.mergePatch(ctx, live, map[string]any{"metadata": map[string]any{
		"labels": pick(desired.GetLabels(),
			entity.OwnerKindLabel, entity.OwnerKeyLabel, entity.OwnerInstanceLabel),
		"annotations": pick(desired.GetAnnotations(),
			entity.OwnerKindAnnotation, entity.OwnerKeyAnnotation, entity.OwnerInstanceAnnotation,
			entity.OwnerRevisionAnnotation, entity.OwnerStatusBucketAnnotation, entity.OwnerProofAnnotation),
	}}, manager)
	return err
}

func pick(from map[string]string, names ...string) map[string]any {
	picked := map[string]any{}
	for _, name := range names {
		if value, ok := from[name]; ok {
			picked[name] = value
		}
	}
	return picked
}
