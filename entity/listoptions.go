package entity

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// ListOptions choose entities. The zero value chooses all; what is set must all hold.
type ListOptions struct {
	// Namespace is that of the entities, where the bucket is Namespaced.
	Namespace string
	// Labels match those of the document; nil matches all.
	Labels labels.Selector
	// Index is the name of one of Config.Indexes, and Value a value that the entities have in it.
	Index, Value string
}

// matches looks at what needs no index.
func (o ListOptions) matches(obj IEntity) bool {
	return (o.Namespace == "" || obj.GetNamespace() == o.Namespace) &&
		(o.Labels == nil || o.Labels.Empty() || o.Labels.Matches(labels.Set(obj.GetLabels())))
}

func (c *Client[T]) checkListOptions(o ListOptions) error {
	switch {
	case o.Namespace != "" && !c.cfg.Namespaced:
		return fmt.Errorf("listing kind %s in namespace %q: its keys have none (Config.Namespaced)", c.cfg.Kind,
			o.Namespace)
	case o.Namespace != "" && (o.Namespace == "*" || !filterToken.MatchString(o.Namespace)):
		return fmt.Errorf("listing kind %s: %q is no namespace; leave it empty for all", c.cfg.Kind, o.Namespace)
	case o.Index != "":
		return c.checkIndex(o.Index)
	case o.Value != "":
		return fmt.Errorf("listing kind %s: ListOptions have a Value and no Index: name the index", c.cfg.Kind)
	}
	return nil
}

// ListMatching is List of the entities that the options choose. Of one namespace it reads only that; else it reads all.
func (c *Client[T]) ListMatching(ctx context.Context, o ListOptions) ([]T, error) {
	if err := c.checkListOptions(o); err != nil {
		return nil, err
	}
	filter := c.cfg.Filter
	if o.Namespace != "" && filter == ">" {
		filter = o.Namespace + ".>"
	}
	all, err := c.list(ctx, filter)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(obj T) bool { return !c.chooses(o, obj) }), nil
}

// indexedLive are the values of an entity that was read with its status, which no index sees.
func (c *Client[T]) indexedLive(index string, obj T) []string {
	document := obj.DeepCopyObject().(T)
	c.codec.clearStatus(document)
	return c.shared.indexes[index](document)
}
