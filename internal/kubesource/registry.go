package kubesource

import (
	"hash/maphash"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"k8s.io/client-go/tools/cache"
)

// informers has the watch errors of the informers of this process. An informer has one watch error handler, which
// cannot be read, and its users may know nothing of each other; so they meet here.
var informers = &registry{seed: maphash.MakeSeed()}

// registry finds the WatchErrors of an informer, and keeps neither of them alive. An informer whose handler they are
// holds its WatchErrors, so they live as long as the informer; else they live as long as a source or a handle has them.
//
// A map by informer would keep each informer. So the map is by a hash of the informer's identity, with weak values.
type registry struct {
	seed maphash.Seed

	mu     sync.Mutex
	last   kubeapi.Server
	byHash map[uint64][]weak.Pointer[WatchErrors]
}

// of returns the watch errors of an informer, and makes them if there are none.
func (r *registry) of(informer cache.SharedIndexInformer) *WatchErrors {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.findLocked(informer); found != nil {
		return found
	}
	made := r.makeLocked(informer)
	if hash, ok := r.hash(informer); ok {
		if r.byHash == nil {
			r.byHash = map[uint64][]weak.Pointer[WatchErrors]{}
		}
		pointer := weak.Make(made)
		r.byHash[hash] = append(r.byHash[hash], pointer)
		runtime.AddCleanup(made, func(hash uint64) { r.remove(hash, pointer) }, hash)
	}
	return made
}

// findOrNew returns the watch errors of an informer, or new ones, which are not shared.
func (r *registry) findOrNew(informer cache.SharedIndexInformer) *WatchErrors {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.findLocked(informer); found != nil {
		return found
	}
	return r.makeLocked(informer)
}

func (r *registry) makeLocked(informer cache.SharedIndexInformer) *WatchErrors {
	r.last++
	w := &WatchErrors{informer: informer, server: r.last, listeners: map[int]listener{}}
	w.view = newView(informer, w)
	return w
}

func (r *registry) findLocked(informer cache.SharedIndexInformer) *WatchErrors {
	id, ok := identity(informer)
	if !ok {
		return nil
	}
	for _, pointer := range r.byHash[maphash.Comparable(r.seed, id)] {
		w := pointer.Value()
		if w == nil {
			continue
		}
		if other, ok := identity(w.informer); ok && other == id {
			return w
		}
	}
	return nil
}

// hash is that of the informer's identity. ok is false if it has none. Then nothing is shared.
func (r *registry) hash(informer cache.SharedIndexInformer) (hash uint64, ok bool) {
	id, ok := identity(informer)
	if !ok {
		return 0, false
	}
	return maphash.Comparable(r.seed, id), true
}

// identity returns what tells an informer from others: its store, because an informer that wraps another one has the
// same store. If that store cannot be compared, or each call returns another one, it is the informer itself. ok is
// false if that cannot be compared either.
func identity(informer cache.SharedIndexInformer) (id any, ok bool) {
	store := informer.GetIndexer()
	if store != nil && reflect.ValueOf(store).Comparable() && store == informer.GetIndexer() {
		return store, true
	}
	return informer, reflect.ValueOf(informer).Comparable()
}

// remove is called when watch errors are gone.
func (r *registry) remove(hash uint64, pointer weak.Pointer[WatchErrors]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := slices.DeleteFunc(r.byHash[hash], func(p weak.Pointer[WatchErrors]) bool { return p == pointer })
	if len(others) == 0 {
		delete(r.byHash, hash)
		return
	}
	r.byHash[hash] = others
}
