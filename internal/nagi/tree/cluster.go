package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Cluster is where objects in Kubernetes are read, with the rights of the user. It may be used concurrently.
type Cluster struct {
	Client    dynamic.Interface
	Discovery discovery.DiscoveryInterface
	// Deep looks for what an object owns among all resources that the API server has, and not only among those that
	// objects of Kubernetes itself own.
	Deep bool
	// Namespaces are looked at, beside that of the document, where the user may not list in all namespaces.
	Namespaces []string

	mu     sync.Mutex
	mapper meta.RESTMapper
	deep   []schema.GroupVersionResource
}

// mapping asks once which resources there are.
func (c *Cluster) mapping() (meta.RESTMapper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapper != nil {
		return c.mapper, nil
	}
	groups, err := restmapper.GetAPIGroupResources(c.Discovery)
	if err != nil && len(groups) == 0 {
		return nil, fmt.Errorf("ask the API server which resources there are: %w", err)
	}
	c.mapper = restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), c.Discovery, func(string) {})
	return c.mapper, nil
}

// Resource finds what a user calls a resource: deployments, deploy, deployment, deployments.apps.
func (c *Cluster) Resource(name string) (found schema.GroupVersionResource, namespaced bool, err error) {
	mapper, err := c.mapping()
	if err != nil {
		return found, false, err
	}
	group := schema.ParseGroupResource(strings.ToLower(name))
	found, err = mapper.ResourceFor(group.WithVersion(""))
	if err != nil {
		return found, false, fmt.Errorf("the API server has no resource %s (kubectl api-resources lists them): %w",
			printable.Quote(name), err)
	}
	kind, err := mapper.KindFor(found)
	if err != nil {
		return found, false, err
	}
	of, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return found, false, err
	}
	return found, of.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// resourceOf is the resource of the kind that an ownerReference names.
func (c *Cluster) resourceOf(ref metav1.OwnerReference) (r schema.GroupVersionResource, namespaced bool, err error) {
	mapper, err := c.mapping()
	if err != nil {
		return r, false, err
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return r, false, err
	}
	of, err := mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	if err != nil {
		return r, false, err
	}
	return of.Resource, of.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

func (c *Cluster) at(r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Client.Resource(r)
	}
	return c.Client.Resource(r).Namespace(namespace)
}

// get reads an object.
func (c *Cluster) get(
	ctx context.Context, r schema.GroupVersionResource, key string,
) (*unstructured.Unstructured, error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	obj, err := c.at(r, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", printable.Quote(key), failed(err, "get", r, namespace))
	}
	return obj, nil
}

// list reads all pages.
func (c *Cluster) list(
	ctx context.Context, r schema.GroupVersionResource, namespace string, selector labels.Selector,
) (all []unstructured.Unstructured, err error) {
	opts := metav1.ListOptions{LabelSelector: selector.String(), Limit: 500}
	for {
		page, err := c.at(r, namespace).List(ctx, opts)
		if err != nil {
			return nil, failed(err, "list", r, namespace)
		}
		all = append(all, page.Items...)
		if opts.Continue = page.GetContinue(); opts.Continue == "" || len(all) > mostNodes {
			return all, nil
		}
	}
}

// Denied is the error of what the user may not do in the cluster. It says how to ask about the right.
type Denied struct {
	verb, resource, namespace string // namespace is "" for all
	err                       error  // of the API server
}

func (d *Denied) Error() string {
	where, flag := "in all namespaces", "--all-namespaces"
	if d.namespace != "" {
		where, flag = "in namespace "+d.namespace, "-n "+printable.Typed(d.namespace, "<namespace>")
	}
	return fmt.Sprintf("the user may not %s %s %s (kubectl auth can-i %[1]s %[2]s %[4]s; who administers the cluster "+
		"grants it)", d.verb, d.resource, where, flag)
}

func (d *Denied) Unwrap() error { return d.err }

// failed is the error of a request.
func failed(err error, verb string, r schema.GroupVersionResource, namespace string) error {
	if apierrors.IsForbidden(err) {
		return &Denied{verb, resourceName(r), namespace, err}
	}
	return fmt.Errorf("%s %s: %w", verb, resourceName(r), err)
}

// resourceName is how kubectl calls a resource: deployments.apps, pods.
func resourceName(r schema.GroupVersionResource) string { return r.GroupResource().String() }

// ownedResources are those whose objects Kubernetes itself makes for objects of a resource, with an ownerReference.
var ownedResources = map[schema.GroupResource][]schema.GroupVersionResource{
	{Group: "apps", Resource: "deployments"}: {{Group: "apps", Version: "v1", Resource: "replicasets"}},
	{Group: "apps", Resource: "replicasets"}: {{Version: "v1", Resource: "pods"}},
	{Group: "apps", Resource: "statefulsets"}: {
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "persistentvolumeclaims"},
	},
	{Group: "apps", Resource: "daemonsets"}: {{Version: "v1", Resource: "pods"}},
	{Group: "batch", Resource: "cronjobs"}:  {{Group: "batch", Version: "v1", Resource: "jobs"}},
	{Group: "batch", Resource: "jobs"}:      {{Version: "v1", Resource: "pods"}},
	{Resource: "replicationcontrollers"}:    {{Version: "v1", Resource: "pods"}},
	{Resource: "services"}:                  {{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}},
}

// Unsought are the resources of objects in a tree that is not deep, for which nothing below them was looked for.
func Unsought(root *Node) []string {
	found := sets.New[string]()
	var look func(n *Node)
	look = func(n *Node) {
		resource := schema.ParseGroupResource(n.Resource)
		_, sought := ownedResources[resource]
		if n.In == registry.InKubernetes && n.Key != "" && !sought && n.Resource != "pods" {
			found.Insert(n.Resource)
		}
		for _, child := range n.Owns {
			look(child)
		}
	}
	look(root)
	return sets.List(found)
}

// children are the resources to look into for what objects of a resource own.
func (c *Cluster) children(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	if !c.Deep {
		return ownedResources[r.GroupResource()], nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deep != nil {
		return c.deep, nil
	}
	lists, err := c.Discovery.ServerPreferredNamespacedResources()
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("ask the API server which resources there are: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, one := range list.APIResources {
			if slices.Contains(one.Verbs, "list") && one.Name != "events" && !strings.Contains(one.Name, "/") {
				c.deep = append(c.deep, gv.WithResource(one.Name))
			}
		}
	}
	// The API server names them in any order.
	slices.SortFunc(c.deep, func(a, b schema.GroupVersionResource) int {
		return strings.Compare(resourceName(a), resourceName(b))
	})
	return c.deep, nil
}
