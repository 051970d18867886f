package kube

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/applied"
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
	// overlayTTL bounds how long an own write hides what the cache says. It only matters when the informer cannot
	// watch. After an API server was away for some time a watch may pause for a minute before it tries again.
	overlayTTL = 2 * time.Minute
	// overlayMost bounds how many own writes are remembered until the cache shows them.
	overlayMost = 16384
	// overlayPrune is how often those are dropped that the cache shows, while there are any.
	overlayPrune = 5 * time.Second
	// overlayLate is after what time the cache should show a write. An event usually comes within milliseconds.
	overlayLate = 6 * time.Second
)

// overlay holds the last own write of each object until the informer has it, and remembers of which objects the
// informer never showed the write.
type overlay struct {
	handleCache
	own       *ownwrites.Overlay[ownWrite]
	uncovered applied.Uncovered
	signs     staleSigns

	mu      sync.Mutex
	pruning *time.Timer // nil while there is nothing to prune
}

// staleSigns is told of signs that the cache is old. It is a *kubesource.WatchErrors.
type staleSigns interface {
	// Suspect is for a write whose version the cache had passed: etcd may have gone back.
	Suspect()
	// NoteUnshown is for a write that the cache does not show after overlayLate: its watch may stand still.
	NoteUnshown()
}

func newOverlay(informer cache.SharedIndexInformer, signs staleSigns) *overlay {
	o := &overlay{signs: signs, handleCache: handleCache{informer: informer, ordered: kubesource.ShowsInOrder()}}
	o.uncovered.Stored = o.stored
	o.own = ownwrites.NewOverlay(ownwrites.Config[ownWrite]{
		Cache: o.handleCache, TTL: overlayTTL, Most: overlayMost, Dropped: o.uncoverUnshown,
	})
	return o
}

// add remembers a write, and logs it where ctx has a log.
func (o *overlay) add(ctx context.Context, key string, w ownWrite) {
	w.at = time.Now()
	added := o.own.Add(key, w)
	if o.Reached(w) {
		// Else another writer was faster than the answer to this one.
		if stored := o.stored(key); stored == nil || stored.GetResourceVersion() != w.version {
			o.signs.Suspect()
		}
	}
	o.mu.Lock()
	if o.pruning == nil {
		o.pruning = time.AfterFunc(overlayPrune, o.pruneAgain)
	}
	o.mu.Unlock()
	if log := ownwrites.LogOf(ctx); log != nil {
		log.Add(o.informer, key, ownwrites.Shown{Of: o.informer, As: w.shownAs(), Polled: func() bool {
			return added.Shown() || o.informer.IsStopped() // it never will
		}})
	}
}

// pruneAgain drops what the cache shows where no other write comes. It ends by itself: nothing is held for longer than
// overlayTTL.
func (o *overlay) pruneAgain() {
	o.own.Prune()
	o.uncovered.DropShown()
	if o.late() {
		o.signs.NoteUnshown()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruning = nil
	if o.own.Len() > 0 {
		o.pruning = time.AfterFunc(overlayPrune, o.pruneAgain)
	}
}

// late reports whether there is a write that the cache should show by now.
func (o *overlay) late() bool {
	for key, w := range o.own.All() {
		if time.Since(w.at) >= overlayLate && !o.Shows(key, w) {
			return true
		}
	}
	return false
}

// uncoverUnshown is told of a write that the cache has passed, if it will ever.
func (o *overlay) uncoverUnshown(key string, w ownWrite) {
	if w.object != nil && !w.shownBy(o.stored(key)) {
		o.uncovered.Add(key, owner.Of(w.object))
	}
}

// notShown are the keys of a primary's objects that were written and that the cache does not have though it has come so
// far, but for those that were too many to remember.
func (o *overlay) notShown(kind, key string) (names []string) {
	o.own.Prune() // what is too old is reached, too
	for name, w := range o.own.All() {
		if o.Reached(w) {
			o.uncoverUnshown(name, w)
		}
	}
	return o.uncovered.Of(kind, key)
}

// lookup returns the object of a key, own or cached, whichever is later; nil if there is none.
func (o *overlay) lookup(key string) metav1.Object {
	w, written := o.own.Get(key) // before the cache, which may have it by the time it is read
	stored := o.stored(key)
	if !written || w.shownBy(stored) {
		return stored
	}
	if w.object == nil {
		return nil
	}
	return w.object
}

// ownWrite is a write that succeeded: the object as the server returned it, or none for a delete.
type ownWrite struct {
	object  metav1.Object
	uid     types.UID
	version string // of a delete it is not known
	at      time.Time
}

func writeOf(obj metav1.Object) ownWrite {
	return ownWrite{object: obj, uid: obj.GetUID(), version: obj.GetResourceVersion()}
}

// shownAs is the version that its event will have.
func (w ownWrite) shownAs() string { return cmp.Or(w.version, loops.DeletedVersion(w.uid)) }

// shownBy tells whether what the cache has of an object is the write or later; stored is nil if it has nothing.
func (w ownWrite) shownBy(stored metav1.Object) bool {
	if w.object == nil {
		return stored == nil || stored.GetUID() != w.uid || stored.GetDeletionTimestamp() != nil
	}
	if stored == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(stored.GetResourceVersion(), w.version)
	return err != nil || order >= 0 // what cannot be compared must not hide what the cache says
}

// handleCache is an informer as the overlay sees it.
type handleCache struct {
	informer cache.SharedIndexInformer
	// ordered tells whether the store's resource version is a cursor; else only an object's own version counts.
	ordered bool
}

// Follows implements ownwrites.Cache. An object that was deleted does not come back: another one has another uid.
func (c handleCache) Follows(w, old ownWrite) bool {
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
func (c handleCache) Reached(w ownWrite) bool { return w.object != nil && c.passed(w.version) }

// Shows implements ownwrites.Cache.
func (c handleCache) Shows(key string, w ownWrite) bool {
	return c.Reached(w) || w.shownBy(c.stored(key))
}

// lacks tells whether the cache does not have an object although it has come to where it should.
func (c handleCache) lacks(key string, live metav1.Object) bool {
	return c.passed(live.GetResourceVersion()) && c.stored(key) == nil
}

// passed reports whether all up to a resource version is in the store.
func (c handleCache) passed(version string) bool {
	if !c.ordered || !c.informer.HasSynced() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(c.informer.GetStore().LastStoreSyncResourceVersion(), version)
	return err == nil && order >= 0
}

func (c handleCache) stored(key string) metav1.Object {
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
