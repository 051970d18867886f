package current

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/util/sets"
)

// wanted is what a reconcile says that its primary is to own, by place.
type wanted struct {
	mu     sync.Mutex
	places map[source.Place]sets.Set[string]
}

// MayOwn implements Writer.
func (c *Context) MayOwn(place source.Place, key string) error {
	namespace, _, namespaced := strings.Cut(key, "/")
	if !namespaced || !owner.Crosses(namespace, c.key) || !source.Confined(c.config.Host.Sources(), place) {
		return nil
	}
	return fmt.Errorf("%q is in another namespace than %s %q, which would own it: "+
		"nothing was written; open its source to such owners (WithOwnersInOtherNamespaces), or use the same namespace",
		key, c.Primary().Kind, c.key)
}

// Want implements Writer.
func (c *Context) Want(place source.Place, key string) {
	if !c.config.Prunes {
		return
	}
	c.wanted.mu.Lock()
	defer c.wanted.mu.Unlock()
	if c.wanted.places == nil {
		c.wanted.places = map[source.Place]sets.Set[string]{}
	}
	if c.wanted.places[place] == nil {
		c.wanted.places[place] = sets.New[string]()
	}
	if key != "" {
		c.wanted.places[place].Insert(key)
	}
}

// Wanted returns what is wanted of a place; ok is false if nothing was said of it.
func (c *Context) Wanted(place source.Place) (keys sets.Set[string], ok bool) {
	c.wanted.mu.Lock()
	defer c.wanted.mu.Unlock()
	keys, ok = c.wanted.places[place]
	return maps.Clone(keys), ok
}
