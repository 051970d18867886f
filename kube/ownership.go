package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/secondary"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// claimIn is what a write of obj under ctx says of its owner, and makes that obj's: the reconciled primary, else whom
// obj names. stamp is what obj is to carry of its owner's revision. It refuses what the primary may not own.
func (k *Handle[T]) claimIn(
	ctx context.Context, obj metav1.Object, options secondary.Options,
) (claim secondary.Claim, stamp owner.Stamp, err error) {
	claim, err = secondary.NewClaim(ctx, k.what(), source.Place{Informer: k.informer}, obj, options)
	r, ok := reconcilectx.Of(ctx)
	if !ok || err != nil {
		return claim, owner.StampOf(obj), err
	}
	claim.Owner.Own(obj)
	k.prove(ctx, obj)
	return claim, r.Primary().Stamp, nil
}

// prove gives obj, which names the owner of what is written under ctx, the proof that the controller wants.
func (k *Handle[T]) prove(ctx context.Context, obj metav1.Object) {
	if r, ok := reconcilectx.Of(ctx); ok {
		r.Prove(obj, k.proofs())
	}
}

// proofs is the resource as proofs name it.
func (k *Handle[T]) proofs() owner.Resource { return kubesource.ResourceOf(k.deleter) }

// wrote remembers an own write for readers, and for the key's next reconcile.
func (k *Handle[T]) wrote(ctx context.Context, key string, returned *unstructured.Unstructured) {
	if dryrun.Of(ctx) != nil { // who has another context sees what is there
		return
	}
	k.memory(ctx).Owned(key, returned.GetUID(), owner.Of(returned))
	k.own.Add(ctx, key, kubewrites.WriteOf(returned))
}

// stampOver returns the stamp for a write over existing, which may have been another owner's.
func stampOver(stamp owner.Stamp, of owner.Owner, existing metav1.Object) owner.Stamp {
	if named := owner.NamedBy(existing); !of.IsNone() && !named.IsNone() && !named.Allows(of) {
		return stamp
	}
	return stamp.Over(existing)
}

// mayTake is mayWrite where the options of a write may give it what is not the primary's. What a Kubernetes object
// controls by an ownerReference is not given to anybody.
func (k *Handle[T]) mayTake(
	ctx context.Context, claim secondary.Claim, manager string, existing metav1.Object,
) error {
	key := source.ObjectKey(existing)
	err := k.mayWrite(ctx, key, claim.Owner, manager, existing)
	if err == nil || claim.Owner.IsNone() || !claim.Takes(owner.NamedBy(existing), claim.Owner) ||
		metav1.GetControllerOf(existing) != nil {
		return err
	}
	return nil
}

// mayWrite refuses what is not the primary's. An object is the primary's if its marks say so, or if this process itself
// wrote this very object for it, or has seen that it was its own, and what is left of the marks names no other owner.
// An owner without an installation is of every one: the original Kumori runtime names none. Where nothing is to be
// owned, an object without an owner is ours if our field manager has written it.
func (k *Handle[T]) mayWrite(
	ctx context.Context, key string, primary owner.Owner, manager string, existing metav1.Object,
) error {
	named := owner.NamedBy(existing)
	if primary.IsNone() {
		if named == (owner.Named{}) && writtenBy(existing, manager) {
			return nil
		}
		return k.exists(existing, primary)
	}
	if named.Allows(primary) {
		k.memory(ctx).Owned(key, existing.GetUID(), primary)
		return nil
	}
	last, ok := k.memory(ctx).Of(key, existing.GetUID())
	if ok && last.Owner == primary && !named.Denies(primary) {
		return nil
	}
	return k.exists(existing, primary)
}

// mayDelete refuses what is not for certain the reconciled primary's and of this installation.
func (k *Handle[T]) mayDelete(
	ctx context.Context, r reconcilectx.Reconcile, key string, obj metav1.Object,
) error {
	if err := r.MayOwn(source.Place{Informer: k.informer}, key); err != nil {
		return err
	}
	if err := k.mayWrite(ctx, key, r.Primary().Owner, "", obj); err != nil {
		return err
	}
	named := owner.NamedBy(obj)
	switch {
	case r.MayDelete(obj, k.proofs()), named.IsNone(): // without an owner, this process itself has written it
		return nil
	case named.Contradicts():
		return &controller.ContradictingMarksError{Resource: k.resource, Key: key}
	case named.Allows(r.Primary().Owner) && named.Owner().Instance != "":
		return &controller.UnprovenError{Resource: k.resource, Key: key}
	}
	return k.exists(obj, r.Primary().Owner)
}

func writtenBy(obj metav1.Object, manager string) bool {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == manager && entry.Subresource == "" {
			return true
		}
	}
	return false
}

func (k *Handle[T]) what() secondary.What { return secondary.What{Resource: k.resource} }

func (k *Handle[T]) exists(existing metav1.Object, wanted owner.Owner) error {
	return secondary.NewResourceExistsError(k.what(), existing, wanted)
}

// beingDeleted is the error about an object that is being deleted, for what was written of it is not to last; nil for
// any other, and for none.
func (k *Handle[T]) beingDeleted(key string, obj metav1.Object) error {
	if obj == nil || obj.GetDeletionTimestamp() == nil {
		return nil
	}
	return &controller.BeingDeletedError{Resource: k.resource, Key: key, Finalizers: obj.GetFinalizers()}
}

// isBeingDeleted reports whether err is that of beingDeleted.
func isBeingDeleted(err error) bool {
	_, ok := errors.AsType[*controller.BeingDeletedError](err)
	return ok
}

// goneLook is when to look again, at the latest, whether an object that is being deleted has gone. Its event comes
// earlier where the informer is a source of the controller.
const goneLook = 10 * time.Second

// awaitGone is for a write over an object that is being deleted, as err says. In a reconcile the primary waits until
// the object is gone, without an error: the rest of what the reconciler has to write may be what the object waits for.
// look says that the API server may know more than the cache; only the first try looks.
func (k *Handle[T]) awaitGone(
	ctx context.Context, key string, before metav1.Object, err error, first bool,
) (look bool, rest error) {
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return first, err
	}
	r.AwaitName(source.Place{Informer: k.informer}, key)
	now := k.seen(ctx, key) // what goes from now on makes the primary due
	deleting, _ := errors.AsType[*controller.BeingDeletedError](err)
	freed := len(deleting.Finalizers) == 0 && before != nil && len(before.GetFinalizers()) > 0
	if first && (freed || now == nil || now.GetDeletionTimestamp() == nil) {
		return true, err
	}
	what := fmt.Sprintf("%s %q to go, which is being deleted", kubeapi.ResourceName(k.resource), key)
	if len(deleting.Finalizers) > 0 {
		what += " and has the finalizers " + strings.Join(deleting.Finalizers, ", ")
	}
	r.WaitFor(what, goneLook)
	return false, nil
}
