package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Of is a document, or an object in Kubernetes, to begin a trace with.
type Of struct {
	Kind *kinds.Kind // nil for an object in Kubernetes
	// Resource is that of an object in Kubernetes.
	Resource schema.GroupVersionResource
	Key      string // "name" or "namespace/name"
}

// Trace goes from an object up to what caused it: the object comes first, and last what nothing is known to own. A step
// that could not be looked at is the last one, and its note says why.
func (b *Builder) Trace(ctx context.Context, of Of) ([]*Node, error) {
	t := &trace{Builder: b, seen: map[string]bool{}}
	var err error
	if of.Kind != nil {
		err = t.document(ctx, of.Kind, of.Key)
	} else {
		err = t.object(ctx, of.Resource, of.Key)
	}
	if err != nil && len(t.steps) == 0 {
		return nil, err
	}
	if err != nil {
		t.end(err.Error())
	}
	return t.steps, ctx.Err()
}

type trace struct {
	*Builder
	steps []*Node
	seen  map[string]bool
}

// end says why nothing follows.
func (t *trace) end(why string) {
	last := t.steps[len(t.steps)-1]
	last.Note = joined(last.Note, why)
}

// step takes a step, unless it was taken before.
func (t *trace) step(n *Node) bool {
	at := n.In + " " + n.Bucket + " " + n.Resource + " " + n.Key
	if t.seen[at] || len(t.steps) == mostDepth {
		t.end("it is owned by what it owns: " + n.Name())
		return false
	}
	t.seen[at] = true
	t.steps = append(t.steps, n)
	return true
}

// document steps to a document, and on to what owns it.
func (t *trace) document(ctx context.Context, kind *kinds.Kind, key string) error {
	bucket, err := t.Buckets.Bucket(ctx, placeOf(kind.Entry))
	if err != nil {
		return err
	}
	d, ok := bucket.Get(follow.NATSKey(key))
	if !ok {
		return notFound(kind, key)
	}
	if !t.step(t.documentNode(kind.Entry, d, kind.Namespaced)) || d.Marks == nil {
		return nil
	}
	return t.upFrom(ctx, d.Marks, func(r registry.Resource) bool {
		return r.In == registry.InNATS && r.Bucket == kind.Bucket
	})
}

// object begins with an object in Kubernetes.
func (t *trace) object(ctx context.Context, r schema.GroupVersionResource, key string) error {
	if t.Cluster == nil {
		return errors.New("an object in Kubernetes is looked up in a cluster: --kubeconfig names one")
	}
	obj, err := t.Cluster.get(ctx, r, key)
	if err != nil {
		return err
	}
	return t.climb(ctx, r, obj)
}

// climb steps to an object in Kubernetes, and on to what controls it there, or else to the document that it names.
func (t *trace) climb(ctx context.Context, r schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	if !t.step(objectNode(r, obj)) {
		return nil
	}
	above, by, err := t.controllerOf(ctx, obj)
	switch {
	case err == nil && by != nil:
		return t.climb(ctx, above, by)
	case err != nil && owner.NamedBy(obj).IsNone():
		return err
	case err != nil:
		t.end(err.Error())
	}
	return t.upFrom(ctx, obj, func(of registry.Resource) bool {
		return of.In == registry.InKubernetes && of.Group == r.Group && of.Resource == r.Resource
	})
}

// controllerOf reads what owns an object by an ownerReference: its controller, or else the first owner; nil if there is
// none.
func (t *trace) controllerOf(
	ctx context.Context, obj *unstructured.Unstructured,
) (r schema.GroupVersionResource, by *unstructured.Unstructured, err error) {
	ref := metav1.GetControllerOf(obj)
	if refs := obj.GetOwnerReferences(); ref == nil && len(refs) > 0 {
		ref = &refs[0]
	}
	if ref == nil {
		return r, nil, nil
	}
	r, namespaced, err := t.Cluster.resourceOf(*ref)
	if err == nil {
		key := ref.Name
		if namespaced {
			key = obj.GetNamespace() + "/" + ref.Name
		}
		by, err = t.Cluster.get(ctx, r, key)
	}
	if err == nil && by.GetUID() != ref.UID {
		err = errors.New("another one has that name now")
	}
	if err != nil {
		return r, nil, fmt.Errorf("it is owned by %s %s, which was not read: %w", printable.Text(ref.Kind),
			printable.Quote(ref.Name), err)
	}
	return r, by, nil
}

// upFrom goes on to the document that marks name. owned tells of a resource whether the object is one of it.
func (t *trace) upFrom(ctx context.Context, marks metav1.Object, owned func(registry.Resource) bool) error {
	named := owner.NamedBy(marks)
	if named.IsNone() {
		return nil
	}
	if named.Contradicts() {
		t.end("its labels and annotations name different owners; followed are the annotations")
	}
	candidates := t.owners(marks, owned)
	if len(candidates) == 0 {
		o := named.Owner()
		return fmt.Errorf("it names %s %s as its owner, and the registry has no such kind", printable.Text(o.Kind),
			printable.Quote(o.Key))
	}
	var missing error
	for _, kind := range candidates {
		key, err := t.keyIn(ctx, kind, named)
		if err == nil {
			err = t.document(ctx, kind, key)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		missing = err
	}
	return fmt.Errorf("its owner is gone: %s", missing)
}

// owners are the kinds whose documents may own what has these marks, those first that say that they own such objects,
// for the installation that is named.
func (t *trace) owners(marks metav1.Object, owned func(registry.Resource) bool) (all []*kinds.Kind) {
	named, rest := owner.NamedBy(marks), []*kinds.Kind(nil)
	for _, e := range t.Kinds {
		if named.Owner().Kind != e.Kind && !entity.IsOwnerLabel(named.Owner().Kind, e.Kind) {
			continue
		}
		kind, says := &kinds.Kind{Entry: e, Registered: true}, false
		for _, o := range ownedBy(kind) {
			says = says || owned(o.Resource) && o.allows(named, e.Kind, named.Owner().Key)
		}
		if says {
			all = append(all, kind)
		} else {
			rest = append(rest, kind)
		}
	}
	return append(all, rest...)
}

// keyIn is the key of the owner. Where a label has only a hash of it, it is the key in the bucket that has that hash.
func (t *trace) keyIn(ctx context.Context, kind *kinds.Kind, named owner.Named) (string, error) {
	key, hash := named.Key()
	if hash == "" {
		return key, nil
	}
	bucket, err := t.Buckets.Bucket(ctx, placeOf(kind.Entry))
	if err != nil {
		return "", err
	}
	for _, key := range bucket.Keys() {
		if key = follow.ClientKey(key, kind.Namespaced); entity.OwnerLabelValue(key) == hash {
			return key, nil
		}
	}
	return "", notFound(kind, hash)
}
