package current

import (
	"maps"
	"sync"

	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/util/sets"
)

// wanted is what a reconcile says that its primary is to own, by place.
type wanted struct {
	mu     sync.Mutex
	places map[source.Place]sets.Set[string]
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
