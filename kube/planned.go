package kube

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// plannable is a client of a resource whose writes, under the context of a plan, are dry runs of the API server: it
// admits, defaults and merges as it does otherwise, and keeps nothing. What the plan itself has made or deleted by then
// the server does not know; the plan answers for it.
type plannable struct {
	dynamic.ResourceInterface
	client    dynamic.Interface
	resource  schema.GroupVersionResource
	namespace string
}

var dryRun = []string{metav1.DryRunAll}

// Get returns the object as the plan would have left it.
func (p plannable) Get(
	ctx context.Context, name string, opts metav1.GetOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	if plan := dryrun.Of(ctx); plan != nil && len(subresources) == 0 {
		if o := p.seen(plan, name); o != nil && o.now != nil {
			return o.now.DeepCopy(), nil
		} else if o != nil {
			return nil, apierrors.NewNotFound(p.resource.GroupResource(), name)
		}
	}
	return p.ResourceInterface.Get(ctx, name, opts, subresources...)
}

// Create is a dry run in a plan.
func (p plannable) Create(
	ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	plan := dryrun.Of(ctx)
	if plan == nil {
		return p.ResourceInterface.Create(ctx, obj, opts, subresources...)
	}
	switch o := p.seen(plan, obj.GetName()); {
	case o != nil && o.now != nil:
		return nil, apierrors.NewAlreadyExists(p.resource.GroupResource(), obj.GetName())
	case o != nil:
		return p.madeAgain(plan, obj.GetName(), o, obj), nil
	}
	opts.DryRun = dryRun
	return p.planned(ctx, plan, obj.GetName(), obj, func() (*unstructured.Unstructured, error) {
		return p.ResourceInterface.Create(ctx, obj, opts, subresources...)
	})
}

// Patch is a dry run in a plan.
func (p plannable) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	plan := dryrun.Of(ctx)
	if plan == nil {
		return p.ResourceInterface.Patch(ctx, name, kind, data, opts, subresources...)
	}
	sent, wants := sentBy(data)
	if kind != types.ApplyPatchType || wants.GetUID() != "" {
		sent = nil // it makes no object
	}
	o := p.seen(plan, name)
	switch {
	case o == nil || o.isHere():
	case o.now == nil && sent != nil:
		return p.madeAgain(plan, name, o, sent), nil
	case o.now == nil:
		return nil, apierrors.NewNotFound(p.resource.GroupResource(), name)
	case !o.is(wants.GetUID(), wants.GetResourceVersion()):
		return nil, p.changed(name)
	default:
		// The server has not what was planned before, so it cannot say what a second write would make of it.
		_, of := p.place(name)
		plan.Note("%s %q would be written a second time; what that changes is not shown", of.Kind, of.Key)
		return o.now.DeepCopy(), nil
	}
	opts.DryRun = dryRun
	return p.planned(ctx, plan, name, sent, func() (*unstructured.Unstructured, error) {
		return p.ResourceInterface.Patch(ctx, name, kind, data, opts, subresources...)
	})
}

// Delete is a dry run in a plan. An object that finalizers hold counts as deleted, and is still there.
func (p plannable) Delete(
	ctx context.Context, name string, opts metav1.DeleteOptions, subresources ...string,
) error {
	plan := dryrun.Of(ctx)
	if plan == nil {
		return p.ResourceInterface.Delete(ctx, name, opts, subresources...)
	}
	var last *unstructured.Unstructured
	if o := p.seen(plan, name); o != nil && !o.isHere() {
		last = o.now
		seen := opts.Preconditions
		switch {
		case o.now == nil:
			return apierrors.NewNotFound(p.resource.GroupResource(), name)
		case seen != nil && seen.UID != nil && *seen.UID != o.now.GetUID():
			return p.changed(name)
		case o.now.GetDeletionTimestamp() != nil:
			return nil
		case o.here == nil || o.here.GetUID() != o.now.GetUID(): // the server knows nothing of it
			p.wrote(plan, name, o.here, nil)
			return nil
		}
		uid := o.here.GetUID()
		opts.Preconditions = &metav1.Preconditions{UID: &uid} // a version of the plan's own the server has not
	}
	opts.DryRun = dryRun
	_, err := p.planned(ctx, plan, name, nil, func() (*unstructured.Unstructured, error) {
		return nil, p.ResourceInterface.Delete(ctx, name, opts, subresources...)
	})
	if err != nil {
		return err
	}
	p.hold(plan, name, last, opts.PropagationPolicy)
	return nil
}

func (p plannable) changed(name string) error {
	return apierrors.NewConflict(p.resource.GroupResource(), name,
		errors.New("by what is planned it is another one, or has another version"))
}

// planned notes what a dry run makes of an object. made is what it sends where that may make one, else nil.
func (p plannable) planned(
	ctx context.Context, plan *dryrun.Plan, name string, made *unstructured.Unstructured,
	do func() (*unstructured.Unstructured, error),
) (*unstructured.Unstructured, error) {
	here, err := p.here(ctx, plan, name)
	if err != nil {
		return nil, err
	}
	after, err := do()
	if here == nil && made != nil && kubeapi.MissingNamespace(err) && p.makesNamespace(plan) {
		_, of := p.place(name)
		plan.Note("%s %q is shown as it would be sent: its namespace does not exist yet, so the API server cannot say "+
			"what it would make of it", of.Kind, of.Key)
		return p.made(plan, name, nil, made), nil
	}
	if err != nil {
		return nil, err
	}
	if after != nil && (here == nil || differs(here, after)) {
		// A dry run returns the version that is there, as if nothing had changed.
		after.SetResourceVersion(fmt.Sprint("planned-", plan.Number()))
	}
	p.wrote(plan, name, here, after)
	return after.DeepCopy(), nil
}

// here is an object as the server has it; nil if it has none.
func (p plannable) here(
	ctx context.Context, plan *dryrun.Plan, name string,
) (*unstructured.Unstructured, error) {
	if o := p.seen(plan, name); o != nil {
		return o.here, nil
	}
	here, err := p.ResourceInterface.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return here, err
}
