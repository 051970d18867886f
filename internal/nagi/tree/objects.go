package tree

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
		g.add(n, note(registry.InKubernetes, resourceName(gvr), "not looked at ("+g.Remedies.Cluster+")"))
		return
	}
	selector := labels.SelectorFromSet(labels.Set{
		entity.OwnerKindLabel: entity.OwnerLabelValue(kind.Kind), entity.OwnerKeyLabel: entity.OwnerLabelValue(n.Key),
	})
	items, notes := g.reachable(ctx, n.Key, gvr, selector)
	for _, text := range notes {
		g.add(n, note(registry.InKubernetes, resourceName(gvr), text))
	}
	sortObjects(items)
	for i := range items {
		named := owner.NamedBy(&items[i])
		if !entity.IsOwnedBy(&items[i], kind.Kind, n.Key) || !o.allows(named, kind.Kind, n.Key) {
			continue
		}
		child := objectNode(gvr, &items[i])
		child.Note = doubt(named, child.Key, n.Key)
		if g.add(n, child) {
			g.growObject(ctx, child, gvr, &items[i], 0)
		}
	}
}

// reachable lists in all namespaces or, where the user may not, in that of the key and those of the cluster. notes say
// what was not looked at.
func (g *growth) reachable(
	ctx context.Context, key string, r schema.GroupVersionResource, selector labels.Selector,
) (items []unstructured.Unstructured, notes []string) {
	denied := g.refused[r]
	if denied == nil {
		var err error
		if items, err = g.list(ctx, r, "", selector); err == nil {
			return items, nil
		}
		if !apierrors.IsForbidden(err) {
			return nil, []string{"not looked at: " + err.Error()}
		}
		g.refused[r], denied = err, err
	}
	namespaces := slices.Clone(g.Cluster.Namespaces)
	if namespace, _, ok := strings.Cut(key, "/"); ok && !slices.Contains(namespaces, namespace) {
		namespaces = append([]string{namespace}, namespaces...)
	}
	var seen []string
	for _, namespace := range namespaces {
		there, err := g.list(ctx, r, namespace, selector)
		switch {
		case err == nil:
			seen, items = append(seen, namespace), append(items, there...)
		case !apierrors.IsNotFound(err): // a resource without namespaces has none of them
			notes = append(notes, fmt.Sprintf("not looked at in namespace %s: %v", namespace, err))
		}
	}
	switch len(seen) {
	case 0:
		return nil, append([]string{"not looked at: " + denied.Error() + "; " + g.Remedies.Namespaces}, notes...)
	case 1:
		return items, append([]string{fmt.Sprintf("looked at in namespace %s alone: %v", seen[0], denied)}, notes...)
	}
	return items, append([]string{
		fmt.Sprintf("looked at in the namespaces %s alone: %v", strings.Join(seen, ", "), denied),
	}, notes...)
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
		if g.Cluster.Deep && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
			if apierrors.IsForbidden(err) {
				g.deny(obj.GetNamespace(), of)
			}
			continue
		}
		if err != nil {
			g.add(n, note(registry.InKubernetes, resourceName(of), "not looked at: "+err.Error()))
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

// deny notes what the user may not list. Of many resources, which may have nothing to do with the tree, one note tells.
func (g *growth) deny(namespace string, r schema.GroupVersionResource) {
	if g.denied[namespace] == nil {
		g.denied[namespace] = sets.New[string]()
	}
	g.denied[namespace].Insert(resourceName(r))
}

// mostNamed is how many resources a note names.
const mostNamed = 6

// noteDenied says what the user may not look for in all resources, a note for each namespace.
func (g *growth) noteDenied(root *Node) {
	for _, namespace := range slices.Sorted(maps.Keys(g.denied)) {
		resources := sets.List(g.denied[namespace])
		named := strings.Join(resources[:min(len(resources), mostNamed)], ", ")
		if more := len(resources) - mostNamed; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		g.add(root, note(registry.InKubernetes, named, fmt.Sprintf("not looked at: the user may not list them "+
			"in namespace %s (kubectl auth can-i --list -n %s; who administers the cluster grants it)", namespace,
			printable.Typed(namespace, "<namespace>"))))
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
