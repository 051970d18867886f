package entity

import (
	"github.com/nagi-runtime/nagi/natsinformer"
	"sync"
	"sync/atomic"
	"time"
)

// overlayTTL bounds how long an own write hides what the cache says. It only matters when the informer cannot watch.
const overlayTTL = 30 * time.Second

// overlay holds this process's own writes until the informer has them, so that a read after a write sees it.
// V is the cached form; a deletion is a write without one.
type overlay[V any] struct {
	informer natsinformer.Informer
	groupOf  func(V) string // a second way in, as by owner; may be nil, and "" is no group
	size     atomic.Int64   // entries, to keep the lock out of reads when there are none

	mu      sync.RWMutex
	entries map[string]ownWrite[V]
	groups  map[string]map[string]struct{} // group → keys
	order   []overlayTurn                  // oldest first
}

type ownWrite[V any] struct {
	revision uint64
	value    V
	deleted  bool
	stream   uint64 // the informer's count of stream changes at the time of the write
	at       time.Time
}

type overlayTurn struct {
	key      string
	revision uint64
}

func newOverlay[V any](informer natsinformer.Informer, groupOf func(V) string) *overlay[V] {
	return &overlay[V]{informer: informer, groupOf: groupOf, entries: map[string]ownWrite[V]{}, groups: map[string]map[string]struct{}{}}
}

func (o *overlay[V]) put(key string, revision uint64, value V) {
	o.add(key, ownWrite[V]{revision: revision, value: value})
}

func (o *overlay[V]) delete(key string, revision uint64) {
	o.add(key, ownWrite[V]{revision: revision, deleted: true})
}

func (o *overlay[V]) add(key string, w ownWrite[V]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.stream, w.at = o.informer.Status().StreamChanges, time.Now()
	o.prune(w.stream, w.at) // now all entries are of one stream
	if old, ok := o.entries[key]; ok && old.revision > w.revision {
		return // of two writers in this process the later one came first
	}
	o.forget(key) // without telling readers that there is nothing: what takes its place is put there before the lock goes
	o.entries[key] = w
	o.size.Store(int64(len(o.entries)))
	o.order = append(o.order, overlayTurn{key, w.revision})
	if o.groupOf == nil || w.deleted {
		return
	}
	if group := o.groupOf(w.value); group != "" {
		if o.groups[group] == nil {
			o.groups[group] = map[string]struct{}{}
		}
		o.groups[group][key] = struct{}{}
	}
}

// prune drops, from the oldest on, what the informer has reached, or what no longer counts.
func (o *overlay[V]) prune(stream uint64, now time.Time) {
	cursor := o.informer.Cursor()
	n := 0
	for ; n < len(o.order); n++ {
		turn := o.order[n]
		w, ok := o.entries[turn.key]
		if !ok || w.revision != turn.revision {
			continue
		}
		if !w.over(cursor, stream, now) {
			break
		}
		o.remove(turn.key)
	}
	o.order = o.order[n:]
	if len(o.order) == 0 {
		o.order = nil // let the array go
	}
}

func (w ownWrite[V]) over(cursor, stream uint64, now time.Time) bool {
	return w.revision <= cursor && w.stream == stream || w.stream != stream || now.Sub(w.at) > overlayTTL
}

func (o *overlay[V]) remove(key string) {
	o.forget(key)
	o.size.Store(int64(len(o.entries)))
}

// forget is remove for who goes on to put something in its place.
func (o *overlay[V]) forget(key string) {
	w, ok := o.entries[key]
	if !ok {
		return
	}
	delete(o.entries, key)
	if o.groupOf == nil || w.deleted {
		return
	}
	group := o.groupOf(w.value)
	delete(o.groups[group], key)
	if len(o.groups[group]) == 0 {
		delete(o.groups, group)
	}
}

// get returns the own write of a key that the informer has not reached, if there is one.
func (o *overlay[V]) get(key string) (w ownWrite[V], ok bool) {
	if o.size.Load() == 0 {
		return w, false
	}
	o.mu.RLock()
	w, ok = o.entries[key]
	o.mu.RUnlock()
	if !ok || w.over(o.informer.Cursor(), o.informer.Status().StreamChanges, time.Now()) {
		return ownWrite[V]{}, false
	}
	return w, true
}

// all returns the own writes that the informer has not reached; of one group and its deletions if group is not "".
func (o *overlay[V]) all() map[string]ownWrite[V] {
	if o.size.Load() == 0 {
		return nil
	}
	cursor, stream, now := o.informer.Cursor(), o.informer.Status().StreamChanges, time.Now()
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make(map[string]ownWrite[V], len(o.entries))
	for key, w := range o.entries {
		if !w.over(cursor, stream, now) {
			out[key] = w
		}
	}
	return out
}

// group returns the keys of own writes in a group. They may be over.
func (o *overlay[V]) group(name string) []string {
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
