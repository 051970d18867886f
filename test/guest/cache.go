package guest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	v1 "github.com/nagi-runtime/nagi/test/guest/api/v1"
)

// cacheWith is controller-runtime's cache with our informer for Websites. Websites come from NATS, everything else
// comes from Kubernetes.
type cacheWith struct {
	cache.Cache
	informer toolscache.SharedIndexInformer
	scheme   *runtime.Scheme
}

var websiteKind = v1.GroupVersion.WithKind("Website")

// GetInformer returns our informer for Websites. builder.For and source.Kind call it.
func (c *cacheWith) GetInformer(
	ctx context.Context, obj client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return nil, err
	}
	return c.GetInformerForKind(ctx, gvk, opts...)
}

func (c *cacheWith) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if gvk == websiteKind {
		return c.informer, nil
	}
	return c.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// Start runs our informer beside the others, and ends when all have ended.
func (c *cacheWith) Start(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.informer.RunWithContext(ctx)
	}()
	defer func() { <-done }()
	return c.Cache.Start(ctx)
}

func (c *cacheWith) WaitForCacheSync(ctx context.Context) bool {
	return toolscache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) && c.Cache.WaitForCacheSync(ctx)
}

func (c *cacheWith) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	site, ok := out.(*v1.Website)
	if !ok {
		return c.Cache.Get(ctx, key, out, opts...)
	}
	found, exists, err := c.informer.GetIndexer().GetByKey(key.String())
	switch {
	case err != nil:
		return fmt.Errorf("get website %s: %w", key, err)
	case !exists:
		return apierrors.NewNotFound(v1.GroupVersion.WithResource("websites").GroupResource(), key.String())
	}
	found.(*v1.Website).DeepCopyInto(site)
	return nil
}

func (c *cacheWith) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	sites, ok := out.(*v1.WebsiteList)
	if !ok {
		return c.Cache.List(ctx, out, opts...)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	selector := o.LabelSelector
	if selector == nil {
		selector = labels.Everything()
	}
	sites.Items = nil
	return toolscache.ListAllByNamespace(c.informer.GetIndexer(), o.Namespace, selector, func(found any) {
		sites.Items = append(sites.Items, *found.(*v1.Website).DeepCopy())
	})
}

var _ cache.Cache = (*cacheWith)(nil)
