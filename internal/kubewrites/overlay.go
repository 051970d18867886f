package kubewrites

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

const (
	// longest bounds how long an own write hides what the cache says. It only matters when the informer cannot
	// watch. After an API server was away for some time a watch may pause for a minute before it tries again.
	longest = 2 * time.Minute
	// most bounds how many own writes are remembered until the cache shows them.
	kubeoverlayMost = 16384
	// pruneEvery is how often those are dropped that the cache shows, while there are any.
	pruneEvery = 5 * time.Second
	// lateAfter is after what time the cache should show a write. An event usually comes within milliseconds.
	lateAfter = 6 * time.Second
)

// Overlay holds the last own write of each object until the informer has it, and remembers of which objects the
// informer never showed the write.
type Overlay struct {
	informerCache
	// Own are the writes that the cache does not show yet; Uncovered are those that it never will.
	Own       *ownwrites.Overlay[Write]
	Uncovered Uncovered
	signs     StaleSigns

	mu      sync.Mutex
	pruning *time.Timer // nil while there is nothing to prune
}

// StaleSigns is told of signs that the cache is old. It is a *kubesource.WatchErrors.
type StaleSigns interface {
	// Suspect is for a write whose version the cache had passed: etcd may have gone back.
	Suspect()
	// NoteUnshown is for a write that the cache does not show after lateAfter: its watch may stand still.
	NoteUnshown()
}

// NewOverlay makes an overlay over an informer.
func NewOverlay(informer cache.SharedIndexInformer, signs StaleSigns) *Overlay {
	o := &Overlay{signs: signs, informerCache: informerCache{informer: informer, ordered: kubesource.ShowsInOrder()}}
	o.Uncovered.Stored = o.Stored
	o.Own = ownwrites.NewOverlay(ownwrites.Config[Write]{
		Cache: o.informerCache, TTL: longest, Most: kubeoverlayMost, Dropped: o.uncoverUnshown,
	})
	return o
}

// Add remembers a write, and logs it where ctx has a log.
func (o *Overlay) Add(ctx context.Context, key string, w Write) {
	w.at = time.Now()
	added := o.Own.Add(key, w)
	if o.Reached(w) {
		// Else another writer was faster than the answer to this one.
		if stored := o.Stored(key); stored == nil || stored.GetResourceVersion() != w.version {
			o.signs.Suspect()
		}
	}
	o.mu.Lock()
	if o.pruning == nil {
		o.pruning = time.AfterFunc(pruneEvery, o.pruneAgain)
	}
	o.mu.Unlock()
	if log := ownwrites.LogOf(ctx); log != nil {
		log.Add(o.informer, key, ownwrites.Shown{Of: o.informer, As: w.shownAs(), Polled: func() bool {
			return added.Shown() || o.informer.IsStopped() // it never will
		}})
	}
}

// pruneAgain drops what the cache shows where no other write comes. It ends by itself: nothing is held for longer than
// longest.
func (o *Overlay) pruneAgain() {
	o.Own.Prune()
	o.Uncovered.DropShown()
	if o.late() {
		o.signs.NoteUnshown()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruning = nil
	if o.Own.Len() > 0 {
		o.pruning = time.AfterFunc(pruneEvery, o.pruneAgain)
	}
}

// late reports whether there is a write that the cache should show by now.
func (o *Overlay) late() bool {
	for key, w := range o.Own.All() {
		if time.Since(w.at) >= lateAfter && !o.Shows(key, w) {
			return true
		}
	}
	return false
}

// uncoverUnshown is told of a write that the cache has passed, if it will ever.
func (o *Overlay) uncoverUnshown(key string, w Write) {
	if w.object != nil && !w.shownBy(o.Stored(key)) {
		o.Uncovered.Add(key, owner.Of(w.object))
	}
}

// NotShown are the keys of a primary's objects that were written and that the cache does not have though it has come so
// far, but for those that were too many to remember.
func (o *Overlay) NotShown(kind, key string) (names []string) {
	o.Own.Prune() // what is too old is reached, too
	for name, w := range o.Own.All() {
		if o.Reached(w) {
			o.uncoverUnshown(name, w)
		}
	}
	return o.Uncovered.Of(kind, key)
}

// Lookup returns the object of a key, own or cached, whichever is later; nil if there is none.
func (o *Overlay) Lookup(key string) metav1.Object {
	w, written := o.Own.Get(key) // before the cache, which may have it by the time it is read
	stored := o.Stored(key)
	if !written || w.shownBy(stored) {
		return stored
	}
	if w.object == nil {
		return nil
	}
	return w.object
}

// Write is a write that succeeded: the object as the server returned it, or none for a delete.
type Write struct {
	object  metav1.Object
	uid     types.UID
	version string // of a delete it is not known
	at      time.Time
}

// WriteOf is the write that made obj.
func WriteOf(obj metav1.Object) Write {
	return Write{object: obj, uid: obj.GetUID(), version: obj.GetResourceVersion()}
}

// shownAs is the version that its event will have.
func (w Write) shownAs() string { return cmp.Or(w.version, loops.DeletedVersion(w.uid)) }

// DeleteOf is the delete of the object with that uid.
func DeleteOf(uid types.UID) Write { return Write{uid: uid} }

// shownBy tells whether what the cache has of an object is the write or later; stored is nil if it has nothing.
func (w Write) shownBy(stored metav1.Object) bool {
	if w.object == nil {
		return stored == nil || stored.GetUID() != w.uid || stored.GetDeletionTimestamp() != nil
	}
	if stored == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(stored.GetResourceVersion(), w.version)
	return err != nil || order >= 0 // what cannot be compared must not hide what the cache says
}

// informerCache is an informer as the overlay sees it.
type informerCache struct {
	informer cache.SharedIndexInformer
	// ordered tells whether the store's resource version is a cursor; else only an object's own version counts.
	ordered bool
}

// Follows implements ownwrites.Cache. An object that was deleted does not come back: another one has another uid.
func (c informerCache) Follows(w, old Write) bool {
	switch {
	case w.object == nil:
		return true
	case old.object == nil:
		return w.uid != old.uid
	}
	order, err := resourceversion.CompareResourceVersion(w.version, old.version)
	return err != nil || order >= 0
}

// Reached implements ownwrites.Cache: it reports whether the store's cursor has passed a write.
func (c informerCache) Reached(w Write) bool { return w.object != nil && c.passed(w.version) }

// Shows implements ownwrites.Cache.
func (c informerCache) Shows(key string, w Write) bool {
	return c.Reached(w) || w.shownBy(c.Stored(key))
}

// Lacks tells whether the cache does not have an object although it has come to where it should.
func (c informerCache) Lacks(key string, live metav1.Object) bool {
	return c.passed(live.GetResourceVersion()) && c.Stored(key) == nil
}

// passed reports whether all up to a resource version is in the store.
func (c informerCache) passed(version string) bool {
	if !c.ordered || !c.informer.HasSynced() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(c.informer.GetStore().LastStoreSyncResourceVersion(), version)
	return err == nil && order >= 0
}

// Stored returns the object of a key as cached; nil if there is none.
func (c informerCache) Stored(key string) metav1.Object {
	item, exists, err := c.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	obj, ok := source.MetaObject(item)
	if !ok {
		return nil
	}
	return obj
}
