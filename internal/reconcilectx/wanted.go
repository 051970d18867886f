package reconcilectx

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
	kept   map[source.Place][]string // of that, what the reconciler itself has named
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

// MustName implements Writer.
func (c *Context) MustName(place source.Place) bool {
	return c.config.Shared && c.pruned.Has(place)
}

// Want implements Writer.
func (c *Context) Want(place source.Place, key string) {
	if c.pruned.Has(place) && key != "" { // what has no name is not written
		c.wanted.want(place, key)
	}
}

// Keep implements Writer.
func (c *Context) Keep(place source.Place, keys ...string) {
	if len(c.pruned) == 0 {
		return
	}
	if c.pruned.Has(place) { // else it has not said all that it wants there: see Context.pruned
		c.wanted.want(place, keys...)
	}
	c.wanted.keep(place, keys)
}

func (w *wanted) want(place source.Place, keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places == nil {
		w.places = map[source.Place]sets.Set[string]{}
	}
	if w.places[place] == nil {
		w.places[place] = sets.New[string]()
	}
	w.places[place].Insert(keys...)
}

func (w *wanted) keep(place source.Place, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil {
		w.kept = map[source.Place][]string{}
	}
	w.kept[place] = append(w.kept[place], keys...)
}

// Wanted returns what is wanted of a place; ok is false if nothing was said of it.
func (c *Context) Wanted(place source.Place) (keys sets.Set[string], ok bool) {
	c.wanted.mu.Lock()
	defer c.wanted.mu.Unlock()
	keys, ok = c.wanted.places[place]
	return maps.Clone(keys), ok
}

// Kept returns what of that Keep was given, by place.
func (c *Context) Kept() map[source.Place][]string {
	c.wanted.mu.Lock()
	defer c.wanted.mu.Unlock()
	return maps.Clone(c.wanted.kept)
}
