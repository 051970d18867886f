package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/retry"
	"github.com/nagi-runtime/nagi/internal/secondary"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// CreateOrUpdate makes the object with obj's name and namespace what mutate makes of it.
//
// If the object exists, it is read into obj before mutate is called; else mutate gets obj as it came. mutate sets what
// should be, and leaves the rest. It must not change name or namespace. Nothing is sent when nothing changed. The
// status is neither compared nor written. An obj without a name is refused: with generateName each call would make
// another object.
//
// Inside a reconcile the reconciled primary becomes the owner. Outside of a reconcile obj names its owner as it comes
// (Controller.SetOwner), or has none. If the object exists and is not that owner's, nothing is written, and the error
// is a *ResourceExistsError; where another primary owns it, errors.As finds an *AlreadyOwnedError, too. Whatever mutate
// names, an object is not moved. CreateOrUpdateWith has the options that take it over. Inside a reconcile a refusal is
// an event on the primary, once until something changes, and where the informer is a source of the controller, the
// primary is due as soon as the object is gone or has another owner.
//
// An object that is being deleted is changed, and the primary waits until it is gone, as with Apply.
//
// A change is sent as a merge patch on the resourceVersion that was read. So fields that T does not know stay, in items
// of lists too: a changed item is matched by its name, key or id if that is unique, else by its place. Where the cache
// does not have those fields, a change of a list reads live.
//
// Set single fields in mutate. A mutate that replaces a whole spec removes the defaults that the API server has set, so
// it asks for a change each time. The server changes nothing; the result is then OperationResultNone, and this handle
// does not send the same again.
//
// It reads from the cache, which shows this handle's own writes. If another writer was faster, it reads live and tries
// again; so mutate may be called more than once. On success obj is as the server returned it. After an error it is
// undefined.
func (k *Handle[T]) CreateOrUpdate(ctx context.Context, obj T, mutate func(T) error) (OperationResult, error) {
	return k.CreateOrUpdateWith(ctx, obj, mutate)
}

// CreateOrUpdateWith is CreateOrUpdate with options that say what it may take over: controller.WithAdopt and
// controller.WithHandOverFrom. What a Kubernetes object controls by an ownerReference is not adopted. Outside of a
// reconcile obj has to name the owner as it comes. controller.WithTTL and WithoutTTL are refused: such objects have no
// TTL.
func (k *Handle[T]) CreateOrUpdateWith(
	ctx context.Context, obj T, mutate func(T) error, opts ...controller.WriteOption,
) (OperationResult, error) {
	key := source.ObjectKey(obj)
	if err := k.needsName("create or update", obj); err != nil {
		return OperationResultNone, err
	}
	manager, err := k.managerIn(ctx)
	template := mergediff.CopyOf(obj)
	options, wrong := secondary.OptionsOf(opts...)
	claim, stamp, refused := k.claimIn(ctx, template.DeepCopyObject().(T), options)
	if err = cmp.Or(err, wrong, options.CheckNoTTL(), refused); err != nil {
		return OperationResultNone,
			fmt.Errorf("create or update %s %q: %w", kubeapi.ResourceName(k.resource), key, err)
	}
	existing := k.seen(ctx, key)
	cached, changed := existing == nil || !mergediff.OnlyMetadata(existing), false
	for tries := 0; ; tries++ {
		if tries > 0 || !cached {
			if existing, err = k.live(ctx, key); err != nil {
				return OperationResultNone, err
			}
			k.noteUncovered(ctx, key, existing)
			retry.Assign(obj, template.DeepCopyObject().(T))
		}
		result, err := k.createOrUpdate(ctx, obj, existing, claim, stamp, manager, mutate)
		if changed = changed || result == OperationResultUpdated; changed && result == OperationResultNone {
			result = OperationResultUpdated
		}
		if err == nil {
			err = k.beingDeleted(key, obj) // as the server returned it
		}
		if err == nil {
			err = k.beingDeleted(key, existing)
		}
		if err == nil {
			return result, nil
		}
		refused, foreign := errors.AsType[*secondary.Refusal](err)
		again := retry.IsOvertaken(err)
		switch {
		case foreign:
			again = claim.Await(ctx) || cached && tries == 0 // what the cache says may be old
		case isBeingDeleted(err):
			if again, err = k.awaitGone(ctx, key, existing, err, cached && tries == 0); err == nil {
				return result, nil
			}
		}
		switch {
		case again && retry.Pause(ctx, tries):
		case foreign:
			claim.Tell(ctx, refused.Err)
			return OperationResultNone, refused.Err
		case isBeingDeleted(err):
			return OperationResultNone, err
		default:
			return OperationResultNone, k.explain("create or update", key, err)
		}
	}
}

func (k *Handle[T]) createOrUpdate(
	ctx context.Context, obj T, existing metav1.Object, claim secondary.Claim, stamp owner.Stamp, manager string,
	mutate func(T) error,
) (OperationResult, error) {
	key := source.ObjectKey(obj)
	var before T
	if existing != nil {
		if err := k.mayTake(ctx, claim, manager, existing); err != nil {
			return OperationResultNone, &secondary.Refusal{Err: err}
		}
		var err error
		if before, err = k.fromCache(existing); err != nil {
			return OperationResultNone, err
		}
		retry.Assign(obj, before.DeepCopyObject().(T))
	}
	was := owner.NamedBy(obj)
	if err := mutate(obj); err != nil {
		return OperationResultNone, fmt.Errorf("mutate: %w", err)
	}
	if source.ObjectKey(obj) != key {
		return OperationResultNone, fmt.Errorf("mutate must not change name or namespace, it made %q of %q",
			source.ObjectKey(obj), key)
	}
	if err := claim.Settle(was, obj, existing); err != nil {
		return OperationResultNone, &secondary.Refusal{Err: err}
	}
	k.prove(ctx, obj)
	if existing == nil {
		stamp.Set(obj)
		claim.SetWriter(obj)
		return k.create(ctx, obj, manager)
	}
	claim.KeepWriter(obj, existing)
	if !stamp.StandsOn(existing) || !owner.StampOf(existing).IsNone() {
		stamp = stampOver(stamp, claim.Owner, existing)
		stamp.Set(obj)
	}
	return k.update(ctx, existing, before, obj, claim, stamp, manager)
}

func (k *Handle[T]) create(ctx context.Context, obj T, manager string) (OperationResult, error) {
	fields, err := k.configOf(obj)
	if err != nil {
		return OperationResultNone, err
	}
	returned, err := k.at(obj.GetNamespace()).Create(ctx,
		&unstructured.Unstructured{Object: fields}, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return OperationResultNone, overtakenBy(err)
	}
	k.wrote(ctx, source.ObjectKey(obj), returned)
	return OperationResultCreated, k.read(returned, obj)
}

func (k *Handle[T]) update(
	ctx context.Context, existing metav1.Object, before, obj T, claim secondary.Claim, stamp owner.Stamp,
	manager string,
) (OperationResult, error) {
	if reflect.DeepEqual(before, obj) { // quicker, and mostly says it
		return OperationResultNone, nil
	}
	old, err := k.configOf(before)
	if err != nil {
		return OperationResultNone, err
	}
	wanted := spelledAs(before, obj)
	fields, err := k.configOf(wanted)
	if err != nil {
		return OperationResultNone, err
	}
	patch := mergediff.Between(old, fields)
	if patch == nil {
		return OperationResultNone, nil
	}
	// That alone is no reason to write.
	if owner.StampOf(wanted) != stamp || owner.WriterOf(wanted) != claim.Writer {
		stamp.Set(wanted)
		claim.SetWriter(wanted)
		if fields, err = k.configOf(wanted); err != nil {
			return OperationResultNone, err
		}
		patch = mergediff.Between(old, fields)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return OperationResultNone, fmt.Errorf("encode: %w", err)
	}
	key, asked := source.ObjectKey(obj), shortHash(data)
	last, ok := k.memory(ctx).Of(key, existing.GetUID())
	if ok && last.Hash == asked && last.Version == existing.GetResourceVersion() {
		retry.Assign(obj, before)
		return OperationResultNone, nil
	}
	if mergediff.ReplacesItems(old, patch) {
		full, err := k.allFields(ctx, existing)
		if err != nil {
			return OperationResultNone, err
		}
		if patch = mergediff.Between(full, mergediff.CarryOver(full, old, fields).(map[string]any)); patch == nil {
			return OperationResultNone, nil // it is so already, where T does not look
		}
	}
	returned, err := k.mergePatch(ctx, before, patch, manager)
	if err != nil {
		return OperationResultNone, err
	}
	if returned.GetResourceVersion() != existing.GetResourceVersion() {
		return OperationResultUpdated, k.read(returned, obj)
	}
	k.memory(ctx).Put(key, kubewrites.State{
		UID: returned.GetUID(), Owner: owner.Of(returned), Hash: asked, Version: returned.GetResourceVersion(),
	})
	return OperationResultNone, k.read(returned, obj)
}

// allFields returns all that the API server has of an object, as it was when it was read.
func (k *Handle[T]) allFields(ctx context.Context, existing metav1.Object) (map[string]any, error) {
	if _, ok := existing.(*unstructured.Unstructured); ok {
		return mergediff.FieldsOf(existing)
	}
	live, err := k.live(ctx, source.ObjectKey(existing))
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetUID() != existing.GetUID() || live.GetResourceVersion() != existing.GetResourceVersion() {
		return nil, &retry.Error{Err: apierrors.NewConflict(k.resource.GroupResource(),
			source.ObjectKey(existing), errors.New("it has changed since the cache saw it"))}
	}
	return mergediff.FieldsOf(live)
}

// mergePatch patches what was seen and nothing else.
func (k *Handle[T]) mergePatch(
	ctx context.Context, seen metav1.Object, patch map[string]any, manager string,
) (*unstructured.Unstructured, error) {
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"], metadata["uid"] = seen.GetResourceVersion(), string(seen.GetUID())
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	returned, err := k.at(seen.GetNamespace()).Patch(ctx,
		seen.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return nil, overtakenBy(err)
	}
	k.wrote(ctx, source.ObjectKey(seen), returned)
	return returned, nil
}

func overtakenBy(err error) error {
	if kubeapi.Overtaken(err) {
		return &retry.Error{Err: err}
	}
	return err
}

// read puts what the server returned into obj.
func (k *Handle[T]) read(returned *unstructured.Unstructured, obj T) error {
	result, err := k.fromCache(returned)
	if err == nil {
		retry.Assign(obj, result)
	}
	return err
}
