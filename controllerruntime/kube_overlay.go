package controllerruntime

import (
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// kubeOverlayTTL bounds how long an own write hides what the cache says. It only matters when the informer cannot watch.
	// After an API server was away for some time a watch may pause for a minute before it tries again.
	kubeOverlayTTL = 2 * time.Minute
	// kubeOverlayMost bounds how many own writes are remembered until the cache shows them, and how many that it does not show.
	kubeOverlayMost = 16384
	// kubeOverlayPrune is how often those are dropped that the cache shows, while there are any.
	kubeOverlayPrune = 10 * time.Second
	// kubeOverlayCover is how often at most those are looked through, for want of room, that the cache does not show.
	kubeOverlayCover = time.Second
)

// kubeOverlay holds the last own write of each object until the informer has it, so that a read after a write sees it.
type kubeOverlay struct {
	informer cache.SharedIndexInformer
	// ordered tells whether the store's resource version is a cursor: all up to it is in the store. client-go's is one
	// while lists are put into the store at once, which is its default; else only an object's own version says anything.
	ordered bool
	size    atomic.Int64 // entries, to keep the lock out of reads when there are none

	mu      sync.RWMutex
	entries map[string]kubeWrite
	turns   []kubeTurn // oldest first
	// uncovered are whose the objects are that were written, and that the cache never showed though it has come so far, by key.
	// Maybe somebody deleted them soon; maybe the informer does not cover them.
	uncovered map[string]kubeOwner
	covered   time.Time   // when those were dropped the last time that the cache shows by now
	forgot    bool        // there were too many of them
	pruning   *time.Timer // nil while there is nothing to prune
}

// kubeWrite is a write that succeeded: the object as the server returned it, or none for a delete.
type kubeWrite struct {
	object  metav1.Object
	uid     types.UID
	version string // of a delete it is not known
	at      time.Time
}

type kubeTurn struct {
	key string
	at  time.Time
}

func newKubeOverlay(informer cache.SharedIndexInformer) *kubeOverlay {
	gates := features.FeatureGates()
	return &kubeOverlay{
		informer: informer, entries: map[string]kubeWrite{}, uncovered: map[string]kubeOwner{},
		ordered: gates.Enabled(features.InOrderInformers) && gates.Enabled(features.AtomicFIFO),
	}
}

func writeOf(obj metav1.Object) kubeWrite {
	return kubeWrite{object: obj, uid: obj.GetUID(), version: obj.GetResourceVersion(), at: time.Now()}
}

// add remembers a write, unless a later one of the same object came first.
func (o *kubeOverlay) add(key string, w kubeWrite) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prune()
	if old, ok := o.entries[key]; ok && !w.follows(old) {
		return
	}
	o.entries[key] = w
	o.turns = append(o.turns, kubeTurn{key, w.at})
	o.size.Store(int64(len(o.entries)))
	if o.pruning == nil {
		o.pruning = time.AfterFunc(kubeOverlayPrune, o.pruneAgain)
	}
}

// pruneAgain lets go of what the cache shows where no other write comes. It ends by itself: nothing is kept for longer than
// kubeOverlayTTL.
func (o *kubeOverlay) pruneAgain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prune()
	o.dropCovered()
	o.pruning = nil
	if len(o.entries) > 0 {
		o.pruning = time.AfterFunc(kubeOverlayPrune, o.pruneAgain)
	}
}

// follows tells whether w is the later one of two writes of this process.
func (w kubeWrite) follows(old kubeWrite) bool {
	switch {
	case w.object == nil:
		return true
	case old.object == nil:
		return w.uid != old.uid // what is deleted does not come back
	}
	order, err := resourceversion.CompareResourceVersion(w.version, old.version)
	return err != nil || order >= 0
}

// prune drops, from the oldest on, what the cache shows.
func (o *kubeOverlay) prune() {
	n := 0
	for ; n < len(o.turns); n++ {
		turn := o.turns[n]
		w, ok := o.entries[turn.key]
		if !ok || w.at != turn.at {
			continue
		}
		if !o.shown(turn.key, w) && len(o.entries) < kubeOverlayMost {
			break
		}
		o.uncoverUnshown(turn.key, w)
		delete(o.entries, turn.key)
	}
	o.turns = o.turns[n:]
	if len(o.turns) == 0 {
		o.turns = nil // let the array go
	}
	o.size.Store(int64(len(o.entries)))
}

func (o *kubeOverlay) uncoverUnshown(key string, w kubeWrite) {
	if w.object != nil && !w.shownBy(o.stored(key)) {
		o.uncoverLocked(key, ownerNamedBy(w.object))
	}
}

func (o *kubeOverlay) uncover(key string, owner kubeOwner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uncoverLocked(key, owner)
}

func (o *kubeOverlay) uncoverLocked(key string, owner kubeOwner) {
	if owner == (kubeOwner{}) {
		return
	}
	if len(o.uncovered) >= kubeOverlayMost && time.Since(o.covered) >= kubeOverlayCover {
		o.dropCovered()
	}
	if len(o.uncovered) >= kubeOverlayMost {
		o.forgot = true
		return
	}
	o.uncovered[key] = owner
}

// dropCovered drops those that the cache shows after all, as it does when a watch goes on that had stalled.
func (o *kubeOverlay) dropCovered() {
	for key := range o.uncovered {
		if o.stored(key) != nil {
			delete(o.uncovered, key)
		}
	}
	o.covered = time.Now()
}

// cover forgets an object that there is not.
func (o *kubeOverlay) cover(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.uncovered, key)
}

// notShown are the keys of a primary's objects that were written and that the cache does not have though it has come so far;
// not all of them if there were too many to remember.
func (o *kubeOverlay) notShown(kind, key string) (names []string, all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, w := range o.entries {
		if o.reached(w) {
			o.uncoverUnshown(name, w)
		}
	}
	for name, owner := range o.uncovered {
		if owner.kind == kind && owner.key == key {
			names = append(names, name)
		}
	}
	return names, !o.forgot
}

// lacks tells whether the cache does not have an object although it has come to where it should.
func (o *kubeOverlay) lacks(key string, live metav1.Object) bool {
	if !o.ordered || !o.informer.HasSynced() || o.stored(key) != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.informer.GetStore().LastStoreSyncResourceVersion(), live.GetResourceVersion())
	return err == nil && order >= 0
}

// lookup returns the object of a key, own or cached, whichever is later; nil if there is none.
func (o *kubeOverlay) lookup(key string) metav1.Object {
	w, written := o.get(key) // before the cache, which may have it by the time it is read
	stored := o.stored(key)
	if !written || w.shownBy(stored) {
		return stored
	}
	if w.object == nil {
		return nil
	}
	return w.object
}

func (o *kubeOverlay) stored(key string) metav1.Object {
	item, exists, err := o.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	obj, ok := source.MetaObject(item)
	if !ok {
		return nil
	}
	return obj
}

// get returns the own write of a key that the cache may not have, if there is one.
func (o *kubeOverlay) get(key string) (kubeWrite, bool) {
	if o.size.Load() == 0 {
		return kubeWrite{}, false
	}
	o.mu.RLock()
	w, ok := o.entries[key]
	o.mu.RUnlock()
	if !ok || o.reached(w) {
		return kubeWrite{}, false
	}
	return w, true
}

// keys are those of own writes that the cache may not have.
func (o *kubeOverlay) keys() map[string]struct{} {
	if o.size.Load() == 0 {
		return nil
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	keys := make(map[string]struct{}, len(o.entries))
	for key, w := range o.entries {
		if !o.reached(w) {
			keys[key] = struct{}{}
		}
	}
	return keys
}

// shown tells whether the cache shows a write, or something later, or will not any more.
func (o *kubeOverlay) shown(key string, w kubeWrite) bool {
	return o.reached(w) || w.shownBy(o.stored(key))
}

// reached is shown as far as the store as a whole tells.
func (o *kubeOverlay) reached(w kubeWrite) bool {
	if time.Since(w.at) > kubeOverlayTTL {
		return true
	}
	if w.object == nil || !o.ordered || !o.informer.HasSynced() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.informer.GetStore().LastStoreSyncResourceVersion(), w.version)
	return err == nil && order >= 0
}

// shownBy tells whether what the cache has of an object is the write or later; stored is nil if it has nothing.
func (w kubeWrite) shownBy(stored metav1.Object) bool {
	if w.object == nil {
		return stored == nil || stored.GetUID() != w.uid || stored.GetDeletionTimestamp() != nil
	}
	if stored == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(stored.GetResourceVersion(), w.version)
	return err != nil || order >= 0 // what cannot be compared must not hide what the cache says
}
