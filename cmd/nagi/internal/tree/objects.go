package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/cmd/nagi/internal/kinds"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// listed is what a list has returned.
type listed struct {
	items []unstructured.Unstructured
	err   error
}

// list lists once for each tree.
func (g *growth) list(
	ctx context.Context, r schema.GroupVersionResource, namespace string, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	at := r.String() + " " + namespace + " " + selector.String()
	got, ok := g.lists[at]
	if !ok {
		got.items, got.err = g.Cluster.list(ctx, r, namespace, selector)
		g.lists[at] = got
	}
	return got.items, got.err
}

// objects adds the objects in Kubernetes that name the owner in their labels.
func (g *growth) objects(ctx context.Context, n *Node, kind *kinds.Kind, o owns) {
	if o.Resource.Resource == "" {
		g.add(n, note(registry.InKubernetes, o.Name,
			"not looked at: the controller does not say which resource that is"))
		return
	}
	gvr := schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource.Resource}
	if g.Cluster == nil {
		g.add(n, note(registry.InKubernetes, resourceName(gvr), "not looked at (--kubeconfig)"))
		return
	}
	selector := labels.SelectorFromSet(labels.Set{
		entity.OwnerKindLabel: entity.OwnerLabelValue(kind.Kind), entity.OwnerKeyLabel: entity.OwnerLabelValue(n.Key),
	})
	items, err := g.list(ctx, gvr, "", selector)
	partly := ""
	if namespace, _, ok := strings.Cut(n.Key, "/"); ok && apierrors.IsForbidden(err) {
		items, err = g.list(ctx, gvr, namespace, selector)
		partly = "in namespace " + namespace + " alone, as far as the user may list"
	}
	if err != nil {
		g.add(n, note(registry.InKubernetes, resourceName(gvr), "not looked at: "+err.Error()))
		return
	}
	sortObjects(items)
	for i := range items {
		named := owner.NamedBy(&items[i])
		if !entity.IsOwnedBy(&items[i], kind.Kind, n.Key) || !o.allows(named, kind.Kind, n.Key) {
			continue
		}
		child := objectNode(gvr, &items[i])
		child.Note = joined(doubt(named, child.Key, n.Key), partly)
		if g.add(n, child) {
			g.growObject(ctx, child, gvr, &items[i], 0)
		}
	}
}

func sortObjects(items []unstructured.Unstructured) {
	slices.SortFunc(items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

// growObject adds what an object owns by ownerReferences, in its namespace.
func (g *growth) growObject(
	ctx context.Context, n *Node, r schema.GroupVersionResource, obj *unstructured.Unstructured, depth int,
) {
	if depth == mostDepth || obj.GetUID() == "" {
		return
	}
	below, err := g.Cluster.children(r)
	if err != nil {
		n.Note = joined(n.Note, "what it owns is not known: "+err.Error())
		return
	}
	for _, of := range below {
		selector := labels.Everything()
		if !g.Cluster.Deep {
			selector = selectorOf(obj)
		}
		items, err := g.list(ctx, of, obj.GetNamespace(), selector)
		if err != nil {
			if !g.Cluster.Deep || !lost(err) {
				g.add(n, note(registry.InKubernetes, resourceName(of), "not looked at: "+err.Error()))
			}
			continue
		}
		for i := range items {
			if !isOf(&items[i], obj.GetUID()) {
				continue
			}
			child := objectNode(of, &items[i])
			if g.add(n, child) {
				g.growObject(ctx, child, of, &items[i], depth+1)
			}
		}
	}
}

func isOf(obj *unstructured.Unstructured, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid })
}

// selectorOf selects what an object makes, if it says so.
func selectorOf(obj *unstructured.Unstructured) labels.Selector {
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "selector")
	if matches, ok, _ := unstructured.NestedStringMap(spec, "matchLabels"); ok && len(spec) == 1 {
		return labels.SelectorFromSet(matches)
	}
	return labels.Everything()
}

// objectNode is the node of an object in Kubernetes.
func objectNode(r schema.GroupVersionResource, obj *unstructured.Unstructured) *Node {
	n := &Node{
		In: registry.InKubernetes, Kind: obj.GetKind(), APIVersion: obj.GetAPIVersion(), Resource: resourceName(r),
		Key: obj.GetName(),
	}
	if obj.GetNamespace() != "" {
		n.Key = obj.GetNamespace() + "/" + obj.GetName()
	}
	n.State, n.Health, n.Message = stateOfObject(obj)
	if at := obj.GetDeletionTimestamp(); at != nil {
		n.State, n.Health, n.Since = "Deleting", Waiting, at.Time
		if f := obj.GetFinalizers(); len(f) > 0 {
			n.Message = fmt.Sprintf("it waits for the finalizers %s", strings.Join(f, ", "))
		}
	}
	return n
}
