package current

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// wanted is what a reconcile says that its primary is to own, by place.
type wanted struct {
	mu     sync.Mutex
	places map[any]sets.Set[string]
}

// Want notes under ctx, inside a reconcile, that the primary is to own objects of a place: of the bucket of that name,
// or of a Kubernetes informer. Without keys it is to own nothing there, but for what else is noted.
func Want(ctx context.Context, place any, keys ...string) {
	if r, ok := Of(ctx); ok {
		r.Want(place, keys...)
	}
}

// Want implements Writer.
func (c *Context) Want(place any, keys ...string) {
	if !c.config.Prunes {
		return
	}
	c.wanted.mu.Lock()
	defer c.wanted.mu.Unlock()
	if c.wanted.places == nil {
		c.wanted.places = map[any]sets.Set[string]{}
	}
	if c.wanted.places[place] == nil {
		c.wanted.places[place] = sets.New[string]()
	}
	c.wanted.places[place].Insert(keys...)
}

// Wanted returns what is wanted of a place; ok is false if nothing was said of it.
func (c *Context) Wanted(place any) (keys sets.Set[string], ok bool) {
	c.wanted.mu.Lock()
	defer c.wanted.mu.Unlock()
	keys, ok = c.wanted.places[place]
	return maps.Clone(keys), ok
}
