package entity

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// listerSyncTimeout bounds how long a lister's read waits for caches that have not synced yet.
const listerSyncTimeout = 30 * time.Second

// lister reads the present generation of a client's caches.
type lister[T IEntity] struct{ client *Client[T] }

// Lister reads the caches: documents with their statuses, as this process wrote them or later. What it returns are
// copies. If nobody has started the client, the first read starts it, until Close. Reads wait for the caches' first sync,
// and fail after 30 s, or at once when the caches cannot be filled.
func (c *Client[T]) Lister() Lister[T] { return lister[T]{c} }

// ready returns a generation that runs and has synced.
func (c *Client[T]) ready() (*generation[T], error) {
	g := c.current.Load()
	if g != nil && g.synced.Load() && g.running.Load() {
		return g, nil
	}
	if g == nil || !g.running.Load() {
		if err := c.startLazily(); err != nil {
			return nil, err
		}
		g = c.generation()
	}
	ctx, cancel := context.WithTimeout(context.Background(), listerSyncTimeout)
	defer cancel()
	var failure error
	err := waitSynced(ctx, func() bool {
		if g.hasSynced() || !g.running.Load() {
			return true
		}
		failure = g.failure()
		return failure != nil
	})
	switch {
	case g.hasSynced():
		g.synced.Store(true)
		return g, nil
	case failure != nil:
		return nil, newUnavailable(c.cfg.Kind, "", "the cache of kind %s cannot be filled: %v", c.cfg.Kind, failure)
	case err != nil:
		return nil, newUnavailable(c.cfg.Kind, "", "the cache of kind %s has not synced within %v", c.cfg.Kind, listerSyncTimeout)
	}
	return nil, newUnavailable(c.cfg.Kind, "", "the cache of kind %s was stopped before it had synced", c.cfg.Kind)
}

// startLazily takes a use for the lister, once, which Close ends.
func (c *Client[T]) startLazily() error {
	if c.closed.Load() {
		return fmt.Errorf("entity: the client of kind %s is closed", c.cfg.Kind)
	}
	_, err := c.Start()
	return err
}

func (g *generation[T]) hasSynced() bool {
	return g.docs.HasSynced() && (g.records == nil || g.records.store.HasSynced())
}

func (g *generation[T]) failure() error {
	if err := g.docs.Status().Err; err != nil {
		return err
	}
	if g.records != nil {
		return g.records.store.Status().Err
	}
	return nil
}

func (l lister[T]) Get(key string) (T, error) {
	var none T
	c := l.client
	if _, err := c.keys.toNATS(key); err != nil {
		return none, err
	}
	g, err := c.ready()
	if err != nil {
		return none, err
	}
	obj, found, err := g.get(key)
	if err != nil {
		return none, err
	}
	if !found {
		return none, newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
	}
	return g.join(obj, key), nil
}

// get returns the document of a key as cached or as written since; it is shared. The error is IsInvalid.
func (g *generation[T]) get(key string) (obj T, found bool, err error) {
	own, written := g.writes.get(key)
	if state, invalid := g.client.hooks.invalid.get(key); invalid && (!written || own.revision < state.revision) {
		return obj, true, newInvalid(g.client.cfg.Kind, g.client.cfg.Bucket, key, "document", fmt.Sprintf("revision %d: %v", state.revision, state.err))
	}
	item, exists, err := g.docs.GetStore().GetByKey(key)
	if err != nil {
		return obj, false, err
	}
	if exists {
		obj, exists = item.(T)
	}
	if !written || exists && uint64(obj.GetGeneration()) > own.revision {
		return obj, exists, nil
	}
	return own.value, !own.deleted, nil
}

func (g *generation[T]) join(obj T, key string) T {
	if g.records == nil {
		return obj.DeepCopyObject().(T)
	}
	return g.client.codec.join(obj, g.records.get(key))
}

// List returns the entities whose labels match. Of a key whose document does not decode, it is the last good version.
func (l lister[T]) List(selector labels.Selector) ([]T, error) {
	g, err := l.client.ready()
	if err != nil {
		return nil, err
	}
	return g.collect(g.docs.GetStore().List(), g.writes.all(), func(obj T) bool {
		return selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels()))
	})
}

// OwnedBy returns the entities whose owner annotations name this kind and key, by the informer's index.
func (l lister[T]) OwnedBy(kind, key string) ([]T, error) {
	g, err := l.client.ready()
	if err != nil {
		return nil, err
	}
	value := OwnerIndexValue(kind, key)
	stored, err := g.docs.GetIndexer().ByIndex(OwnerIndex, value)
	if err != nil {
		return nil, fmt.Errorf("index %q of kind %s: %w", OwnerIndex, l.client.cfg.Kind, err)
	}
	// Own writes that matter: those of what the index has, and those of the group.
	own := map[string]ownWrite[T]{}
	for _, item := range stored {
		if name, err := cache.MetaNamespaceKeyFunc(item); err == nil {
			if w, ok := g.writes.get(name); ok {
				own[name] = w
			}
		}
	}
	for _, name := range g.writes.group(value) {
		if w, ok := g.writes.get(name); ok {
			own[name] = w
		}
	}
	return g.collect(stored, own, func(obj T) bool {
		ownerKind, ownerKey, ok := OwnerOf(obj)
		return ok && ownerKind == kind && ownerKey == key
	})
}

// collect joins what is stored with own writes and keeps what matches.
func (g *generation[T]) collect(stored []any, own map[string]ownWrite[T], matches func(T) bool) ([]T, error) {
	out := make([]T, 0, len(stored))
	for _, item := range stored {
		obj, ok := item.(T)
		if !ok {
			continue
		}
		key, err := cache.MetaNamespaceKeyFunc(item)
		if err != nil {
			return nil, err
		}
		if w, written := own[key]; written {
			if uint64(obj.GetGeneration()) <= w.revision {
				continue // comes below
			}
			delete(own, key)
		}
		if matches(obj) {
			out = append(out, g.join(obj, key))
		}
	}
	for key, w := range own {
		if w.deleted {
			continue
		}
		// The store may have moved on from what was listed above; then it has the last word.
		obj, found, err := g.get(key)
		if err == nil && found && matches(obj) {
			out = append(out, g.join(obj, key))
		}
	}
	return out, nil
}
