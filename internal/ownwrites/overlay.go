package ownwrites

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Cache tells an Overlay what a cache shows. The overlay is locked while it asks, so a Cache must not call the overlay.
type Cache[W any] interface {
	// Follows reports whether a write came after another one of the same key. The overlay keeps the later of the two.
	Follows(write, before W) bool
	// Reached reports whether the cache as a whole has passed a write, or never will. Then readers need the cache
	// alone.
	Reached(write W) bool
	// Shows reports whether the cache has a write of that key, or a later one, or never will. Unlike Reached it may
	// look at what the cache has of the key. A write that the cache shows is dropped.
	Shows(key string, write W) bool
}

// Config configures an Overlay.
type Config[W any] struct {
	Cache Cache[W]
	// TTL bounds how long a write hides what the cache says. It matters only while the cache cannot be filled.
	TTL time.Duration
	// Most bounds how many writes are held: beyond it the oldest is dropped, shown or not. 0 is no bound.
	Most int
	// GroupsOf names the groups of a write, for Group. It may be nil.
	GroupsOf func(W) []string
	// Dropped is told of each write that is dropped: because it is shown, too old, or one too many. It is called with
	// the overlay locked. It may be nil.
	Dropped func(key string, write W)
}

// Overlay holds the last own write of each key until the cache has it. Its methods may be called concurrently.
//
// A reader must ask the overlay first and the cache second: a write that the overlay no longer has is in the cache by
// then.
type Overlay[W any] struct {
	cfg  Config[W]
	size atomic.Int64 // entries, so that readers do not lock while there are none

	mu      sync.RWMutex
	entries map[string]entry[W]
	groups  map[string]map[string]struct{} // group → keys
	order   []turn                         // oldest first; one is stale if its key has another turn by now, or none
	turns   uint64
	tidies  bool // tidy is going to run
}

type entry[W any] struct {
	write  W
	groups []string
	at     time.Time
	turn   uint64
}

type turn struct {
	key  string
	turn uint64
}

// NewOverlay returns an overlay over cfg.Cache.
func NewOverlay[W any](cfg Config[W]) *Overlay[W] {
	return &Overlay[W]{cfg: cfg, entries: map[string]entry[W]{}, groups: map[string]map[string]struct{}{}}
}

// Added is a write that was given to an Overlay.
type Added[W any] struct {
	overlay *Overlay[W]
	key     string
	write   W
	at      time.Time
}

// Shown reports whether the cache shows the write or a later one of its key, or will not any more.
func (a Added[W]) Shown() bool {
	return time.Since(a.at) > a.overlay.cfg.TTL || a.overlay.cfg.Cache.Shows(a.key, a.write)
}

// Add remembers a write, unless a later one of the same key came first. The write must not be changed any more.
func (o *Overlay[W]) Add(key string, write W) Added[W] {
	added := Added[W]{overlay: o, key: key, write: write, at: time.Now()}
	var groups []string
	if o.cfg.GroupsOf != nil {
		groups = o.cfg.GroupsOf(write)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.countLocked() // not before: a reader must never meet an overlay that is empty for a moment
	o.pruneLocked(added.at)
	if old, ok := o.entries[key]; ok && !o.cfg.Cache.Follows(write, old.write) {
		return added
	}
	o.removeLocked(key)
	o.turns++
	o.entries[key] = entry[W]{write, groups, added.at, o.turns}
	o.order = append(o.order, turn{key, o.turns})
	for _, group := range groups {
		if o.groups[group] == nil {
			o.groups[group] = map[string]struct{}{}
		}
		o.groups[group][key] = struct{}{}
	}
	if !o.tidies {
		o.tidies = true
		time.AfterFunc(tidyAfter, o.tidy)
	}
	return added
}

// tidyAfter is how long the last writes of a burst are held though the cache shows them.
const tidyAfter = time.Second

// tidy drops what no later Add drops, so that readers take no lock again. It comes again while writes are held, which
// is until their TTL at most.
func (o *Overlay[W]) tidy() {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.countLocked()
	o.pruneLocked(time.Now())
	if o.tidies = len(o.entries) > 0; o.tidies {
		time.AfterFunc(tidyAfter, o.tidy)
	}
}

// Prune drops the oldest writes, up to the first one that the cache does not show. Add does it too.
func (o *Overlay[W]) Prune() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruneLocked(time.Now())
	o.countLocked()
}

// Len returns how many writes are held.
func (o *Overlay[W]) Len() int { return int(o.size.Load()) }

// Get returns the own write of a key that the cache has not reached; ok is false if there is none.
func (o *Overlay[W]) Get(key string) (write W, ok bool) {
	if o.size.Load() == 0 {
		return write, false
	}
	o.mu.RLock()
	e, ok := o.entries[key]
	o.mu.RUnlock()
	if !ok || o.over(e, time.Now()) {
		return write, false
	}
	return e.write, true
}

// Keys returns the keys whose own writes the cache has not reached; nil if there are none.
func (o *Overlay[W]) Keys() map[string]struct{} {
	if o.size.Load() == 0 {
		return nil
	}
	now := time.Now()
	o.mu.RLock()
	defer o.mu.RUnlock()
	keys := make(map[string]struct{}, len(o.entries))
	for key, e := range o.entries {
		if !o.over(e, now) {
			keys[key] = struct{}{}
		}
	}
	return keys
}

// Group returns the keys whose own writes are in that group. The cache may have reached some of them.
func (o *Overlay[W]) Group(name string) []string {
	if o.size.Load() == 0 {
		return nil
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	keys := make([]string, 0, len(o.groups[name]))
	for key := range o.groups[name] {
		keys = append(keys, key)
	}
	return keys
}

// All goes over the writes that are held, in no order. The cache may have reached some of them. The overlay is locked
// meanwhile.
func (o *Overlay[W]) All() iter.Seq2[string, W] {
	return func(yield func(string, W) bool) {
		o.mu.RLock()
		defer o.mu.RUnlock()
		for key, e := range o.entries {
			if !yield(key, e.write) {
				return
			}
		}
	}
}

// over reports whether readers need the cache alone.
func (o *Overlay[W]) over(e entry[W], now time.Time) bool {
	return now.Sub(e.at) > o.cfg.TTL || o.cfg.Cache.Reached(e.write)
}

func (o *Overlay[W]) pruneLocked(now time.Time) {
	n := 0
	for ; n < len(o.order); n++ {
		t := o.order[n]
		e, ok := o.entries[t.key]
		if !ok || e.turn != t.turn {
			continue
		}
		full := o.cfg.Most > 0 && len(o.entries) >= o.cfg.Most
		if !full && now.Sub(e.at) <= o.cfg.TTL && !o.cfg.Cache.Shows(t.key, e.write) {
			break
		}
		if o.cfg.Dropped != nil {
			o.cfg.Dropped(t.key, e.write)
		}
		o.removeLocked(t.key)
	}
	o.order = o.order[n:]
	if len(o.order) > 2*len(o.entries)+staleTurns {
		o.order = slices.DeleteFunc(o.order, func(t turn) bool { return o.entries[t.key].turn != t.turn })
	}
	if len(o.order) == 0 {
		o.order = nil // let the array go
	}
}

// staleTurns is how many turns may be stale at least: a key that is written again and again, while an older write of
// another one is not shown, leaves many.
const staleTurns = 64

func (o *Overlay[W]) removeLocked(key string) {
	e, ok := o.entries[key]
	if !ok {
		return
	}
	delete(o.entries, key)
	for _, group := range e.groups {
		delete(o.groups[group], key)
		if len(o.groups[group]) == 0 {
			delete(o.groups, group)
		}
	}
}

func (o *Overlay[W]) countLocked() { o.size.Store(int64(len(o.entries))) }
