package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		return nil, fmt.Errorf("read %s %s: %w", resourceName(r), printable.Quote(key), err)
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
			return nil, fmt.Errorf("list %s: %w", resourceName(r), err)
		}
		all = append(all, page.Items...)
		if opts.Continue = page.GetContinue(); opts.Continue == "" || len(all) > mostNodes {
			return all, nil
		}
	}
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
	return c.deep, nil
}

// lost reports whether an error says that the user may not, or that there is no such resource.
func lost(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }
