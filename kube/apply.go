package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/retry"
	"github.com/nagi-runtime/nagi/internal/secondary"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// AppliedHashAnnotation returns the name of the annotation in which Apply, under that field manager, keeps a hash of
// what it applied last. Each manager of an object has its own.
func AppliedHashAnnotation(manager string) string {
	if name := appliedHashPrefix + manager; len(validation.IsQualifiedName(name)) == 0 {
		return name
	}
	return appliedHashPrefix + shortHash([]byte(manager))
}

const appliedHashPrefix = "nagi/applied-hash."

// Apply makes the fields that obj has what they are in obj, by server-side apply. Fields that were applied before and
// are no longer in obj are removed. All others are left to their managers. The status, and the fields that the server
// sets, are not applied. obj is not modified.
//
// obj holds what the controller wants and nothing else; it is not a changed copy of what was read. In a Go struct a
// zero field without omitempty counts as present, and in your own types an empty struct, too, unless it has omitzero:
// it may be required, or have defaults. In the types of Kubernetes' own API a struct with omitempty that has nothing
// set, such as the strategy of a Deployment, is left out. A pointer to one, such as an emptyDir, is applied. An obj
// without a name is refused.
//
// Inside a reconcile the reconciled primary becomes the owner. If an object of that name exists and is not the
// primary's, nothing is written, the error is a *ResourceExistsError, and an event on the primary says so, as with
// CreateOrUpdate. WithAdopt and WithHandOverFrom take an object over. Two writers at the same moment cannot overwrite
// each other: a created object must not exist, and a changed one must be the one that was seen.
//
// Nothing is sent when nothing changed, and calm means equal: a field whose value is not what the server returned for
// the last apply, or that is no longer ours, is applied again, whoever changed it; also after a restore of etcd.
// Others' fields do not count, nor does the order alone of a list with keys, such as containers. A process that has not
// applied the object itself compares it with obj; where the server stores a value in another way, such as a default in
// a list that is one value, it asks once by an apply that changes nothing. (For some kinds the API server itself writes
// a new version then.) Where the cache cannot tell, because the informer keeps metadata only or its transform drops the
// managedFields, Apply asks after each change of the object.
//
// If the object is being deleted, what is new in obj is applied, so that a finalizer of the controller's own can be
// taken off. It will not last, so the reconcile is not synced, whatever it returns: the record says what the primary
// waits for. It is no error, because what else the reconciler writes may be what the object waits for. The primary is
// due again when the object is gone, and then Apply makes it again: at once where the informer is a source of the
// controller, else within seconds. Outside a reconcile the error is a *controller.BeingDeletedError.
//
// Do not use Apply and CreateOrUpdate on one object: Apply cannot remove fields that CreateOrUpdate has set.
func (k *Handle[T]) Apply(ctx context.Context, obj T, opts ...ApplyOption) (OperationResult, error) {
	c, err := k.configuration(ctx, obj, opts)
	if err != nil {
		return OperationResultNone, err
	}
	existing, changed := k.seen(ctx, c.key), false
	for tries := 0; ; tries++ {
		result, err := k.applyOver(ctx, c, existing)
		if changed = changed || result == OperationResultUpdated; changed && result == OperationResultNone {
			result = OperationResultUpdated
		}
		if err == nil {
			return result, nil
		}
		again := kubeapi.Overtaken(err)
		_, foreign := errors.AsType[*controller.ResourceExistsError](err)
		switch {
		case foreign:
			again = c.Await(ctx) || tries == 0 // what the cache says may be old
		case isBeingDeleted(err):
			if again, err = k.awaitGone(ctx, c.key, existing, err, tries == 0); err == nil {
				return result, nil
			}
		}
		if !again || !retry.Pause(ctx, tries) {
			if foreign {
				c.Tell(ctx, err)
			}
			return OperationResultNone, k.applyFailed(c, err)
		}
		if existing, err = k.live(ctx, c.key); err != nil {
			return OperationResultNone, err
		}
		k.noteUncovered(ctx, c.key, existing)
	}
}

// configuration is what an Apply wants.
type configuration struct {
	secondary.Claim
	key, namespace, name string
	stamp                owner.Stamp
	manager              string
	force                bool
	fields               map[string]any
	hash                 string
}

func (k *Handle[T]) configuration(ctx context.Context, obj T, opts []ApplyOption) (*configuration, error) {
	var o applyOptions
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("option %d of Apply is nil", i+1)
		}
		opt(&o)
	}
	c := &configuration{
		key: source.ObjectKey(obj), namespace: obj.GetNamespace(), name: obj.GetName(), force: !o.withoutForce,
	}
	if err := k.needsName("apply", obj); err != nil {
		return nil, err
	}
	err := errors.Join(o.errs...)
	if err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", kubeapi.ResourceName(k.resource), c.key, err)
	}
	if c.manager, err = k.managerIn(ctx); err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", kubeapi.ResourceName(k.resource), c.key, err)
	}
	if c.fields, err = k.configOf(obj); err != nil {
		return nil, fmt.Errorf("apply %s: %w", kubeapi.ResourceName(k.resource), err)
	}
	desired := &unstructured.Unstructured{Object: c.fields}
	if c.Claim, c.stamp, err = k.claimIn(ctx, desired, o.take); err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", kubeapi.ResourceName(k.resource), c.key, err)
	}
	c.unstamp() // neither is a reason to apply
	data, err := json.Marshal(c.fields)
	if err != nil {
		return nil, fmt.Errorf("apply %s %q: encode: %w", kubeapi.ResourceName(k.resource), c.key, err)
	}
	c.hash = shortHash(data)
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AppliedHashAnnotation(c.manager)] = c.hash
	desired.SetAnnotations(annotations)
	return c, nil
}

// unstamp takes the stamp and the writer off the fields.
func (c *configuration) unstamp() {
	annotations, _, _ := unstructured.NestedFieldNoCopy(c.fields, "metadata", "annotations")
	if m, ok := annotations.(map[string]any); ok {
		delete(m, entity.OwnerRevisionAnnotation)
		delete(m, entity.OwnerStatusBucketAnnotation)
	}
}

// needsName refuses an object without a name. What it is called decides which object a reconcile finds again.
func (k *Handle[T]) needsName(doing string, obj T) error {
	if obj.GetName() != "" {
		return nil
	}
	const advice = "give it one that is made of the primary's key"
	if prefix := obj.GetGenerateName(); prefix != "" {
		return fmt.Errorf("%s %s: the object has no name; %s: "+
			"with generateName %q each reconcile would make another object",
			doing, kubeapi.ResourceName(k.resource), advice, prefix)
	}
	return fmt.Errorf("%s %s: the object has no name; %s", doing, kubeapi.ResourceName(k.resource), advice)
}

func shortHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// managerIn is the field manager of a write under ctx.
func (k *Handle[T]) managerIn(ctx context.Context) (string, error) {
	if k.manager != "" {
		return k.manager, nil
	}
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return "", errors.New("outside of a reconcile it needs a field manager: " +
			"give kube.New WithFieldManager, or call it with a reconcile's context")
	}
	if len(r.Controller()) > maxFieldManager {
		return "", fmt.Errorf("the controller's name is longer than the %d characters of a field manager: "+
			"give kube.New WithFieldManager", maxFieldManager)
	}
	return r.Controller(), nil
}

// absentVersion is a resourceVersion that no object has, because a store's first revision is older than its first
// write. An apply with it conflicts with an object that exists, and creates one that does not. Server-side apply has no
// other way to say "must not exist". A plain create would keep the fields under another operation of the manager, which
// no later apply can remove. A look before leaves a gap in which another's object would be taken over.
const absentVersion = "1"

func (k *Handle[T]) applyOver(ctx context.Context, c *configuration, existing metav1.Object) (OperationResult, error) {
	desired := &unstructured.Unstructured{Object: c.fields}
	if existing == nil {
		c.stamp.Set(desired)
		c.SetWriter(desired)
		// By force, so that where there is one after all the answer is this conflict and not one of fields.
		if _, err := k.sendApply(ctx, c, true, map[string]string{"resourceVersion": absentVersion}); err != nil {
			return OperationResultNone, err
		}
		return OperationResultCreated, nil
	}
	if err := k.mayTake(ctx, c.Claim, c.manager, existing); err != nil {
		return OperationResultNone, err
	}
	if k.upToDate(ctx, c, existing) && c.stamp.StandsOn(existing) && !c.LacksWriter(existing) {
		return OperationResultNone, k.beingDeleted(c.key, existing)
	}
	stampOver(c.stamp, c.Owner, existing).Set(desired)
	if c.SetWriter(desired); !c.force || c.Writer == "" {
		c.KeepWriter(desired, existing) // it may be a field of another manager
	}
	// With the uid, an object that was replaced meanwhile is not touched, and a deleted one is not made again.
	// With the version, a request that arrives late does not undo what the next leader has written.
	returned, err := k.sendApply(ctx, c, c.force, map[string]string{
		"uid": string(existing.GetUID()), "resourceVersion": existing.GetResourceVersion(),
	})
	if err != nil {
		return OperationResultNone, err
	}
	if returned.GetResourceVersion() == existing.GetResourceVersion() {
		if k.own.Stored(c.key) == existing {
			k.memory(ctx).Confirmed(k.wanted(c), existing)
		}
		return OperationResultNone, k.beingDeleted(c.key, returned)
	}
	return OperationResultUpdated, k.beingDeleted(c.key, returned)
}

// upToDate tells whether an apply would change nothing.
func (k *Handle[T]) upToDate(ctx context.Context, c *configuration, existing metav1.Object) bool {
	hash := existing.GetAnnotations()[AppliedHashAnnotation(c.manager)]
	return k.memory(ctx).Right(k.wanted(c), existing, hash, k.own.Stored(c.key) == existing)
}

func (k *Handle[T]) wanted(c *configuration) kubewrites.Wanted {
	return kubewrites.Wanted{
		Key: c.key, Owner: c.Owner, Manager: c.manager, Version: k.resource.GroupVersion(),
		Fields: c.fields, Hash: c.hash,
	}
}

// sendApply applies under the condition that fields of the metadata have those values.
func (k *Handle[T]) sendApply(
	ctx context.Context, c *configuration, force bool, conditions map[string]string,
) (*unstructured.Unstructured, error) {
	metadata := c.fields["metadata"].(map[string]any)
	for field, value := range conditions {
		metadata[field] = value
	}
	data, err := json.Marshal(c.fields)
	for field := range conditions {
		delete(metadata, field)
	}
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	returned, err := k.at(c.namespace).Patch(ctx, c.name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: c.manager, Force: &force})
	if err != nil {
		return nil, err
	}
	k.wrote(ctx, c.key, returned)
	k.memory(ctx).Returned(k.wanted(c), returned)
	return returned, nil
}

func (k *Handle[T]) applyFailed(c *configuration, err error) error {
	if _, ok := errors.AsType[*controller.ResourceExistsError](err); ok || isBeingDeleted(err) {
		return err
	}
	if conflict := applyConflict(k.resource, c.key, err); conflict != nil {
		return conflict
	}
	return k.explain("apply", c.key, err)
}
