package entity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

const (
	// listerSyncTimeout bounds how long, after the caches were started, reads of a lister wait for their first sync.
	listerSyncTimeout = 30 * time.Second
	// listerAnswerTimeout is how long they wait where no answer comes: it may be late.
	listerAnswerTimeout = 10 * time.Second
)

// lister reads the current generation of a client's caches.
type lister[T IEntity] struct{ client *Client[T] }

// Lister reads the caches and returns copies: documents with their statuses, as this client, or one that shares its
// cache, wrote them or later. If the client was never started, the first read starts it until Close. After the
// last user has stopped it, reads fail. A read waits for the first sync of the caches, until 30 s after they were
// started. It fails at once if they cannot be filled, and ten seconds after the start if the server does not answer.
//
// Another stream may take the place of a bucket's while the caches run: a backup is restored, or the bucket is made
// anew. Reads return what this client has written to the new one at once. Else they return what the stream before had
// until the new one was listed, and from then on nothing of the stream before.
func (c *Client[T]) Lister() Lister[T] { return lister[T]{c} }

// ready returns a generation that runs and has synced.
func (c *Client[T]) ready() (*generation[T], error) {
	g := c.current.Load()
	if g != nil && g.synced.Load() && g.running.Load() {
		return g, nil
	}
	if g == nil || !g.running.Load() {
		var err error
		if g, err = c.startLazily(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), g.began.Add(listerSyncTimeout))
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
		return nil, newUnavailable(c.cfg.Kind, "", "the cache of kind %s has not synced within %v",
			c.cfg.Kind, listerSyncTimeout)
	}
	return nil, newUnavailable(c.cfg.Kind, "", "the cache of kind %s was stopped before it had synced", c.cfg.Kind)
}

func (g *generation[T]) hasSynced() bool {
	return g.docs.HasSynced() && (g.records == nil || g.records.store.HasSynced())
}

// failure returns why the caches cannot be filled. That an answer is late is no reason at first: it may come.
func (g *generation[T]) failure() error {
	problems := []error{g.client.documents.notOpened(), g.docs.Status().Err}
	if g.records != nil {
		problems = append(problems, g.client.records.bucket.notOpened(), g.records.store.Status().Err)
	}
	patient := time.Since(g.began) < listerAnswerTimeout
	for _, err := range problems {
		if err != nil && !(patient && errors.Is(err, natsinformer.ErrUnanswered)) {
			return err
		}
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

// get returns the shared document of a key, as cached or as this process wrote it since. The error is IsInvalid.
func (g *generation[T]) get(key string) (obj T, found bool, err error) {
	obj, revision, found, refused := g.documents.look(key)
	if refused != nil {
		return obj, true, refused
	}
	if state, invalid := g.documents.news.invalid.get(key); invalid && revision < state.revision &&
		!g.documents.isAhead(key) {
		return obj, true, newInvalid(g.client.cfg.Kind, g.client.cfg.Bucket, key, "document",
			fmt.Sprintf("revision %d: %v", state.revision, state.err))
	}
	return obj, found, nil
}

// lookup is get, but returns the last good version of an invalid document. It reads own writes before the store: a
// write that the overlay has dropped by then is in the store. The revision is that of the document or of an own delete.
func (g *generation[T]) lookup(key string) (obj T, revision uint64, found bool) {
	return g.documents.lookup(key)
}

func (d *documentCache[T]) lookup(key string) (obj T, revision uint64, found bool) {
	obj, revision, found, _ = d.look(key)
	return obj, revision, found
}

// look is lookup, and says why the cache will not take an own write.
func (d *documentCache[T]) look(key string) (obj T, revision uint64, found bool, refused error) {
	own, written := d.writes.Get(key)
	item, exists, err := d.informer.GetStore().GetByKey(key)
	if exists && err == nil {
		obj, found = item.(T)
	}
	if found {
		revision = uint64(obj.GetGeneration())
	}
	if !written || revision > own.revision && !own.isAheadOf(d.informer) {
		return obj, revision, found, nil
	}
	if own.refused != nil {
		return obj, own.revision, found, own.refused
	}
	return own.value, own.revision, !own.deleted, nil
}

// isAhead reports whether this process wrote the key in a stream that the cache does not show yet.
func (d *documentCache[T]) isAhead(key string) bool {
	own, written := d.writes.Get(key)
	return written && own.isAheadOf(d.informer)
}

func (g *generation[T]) join(obj T, key string) T {
	if g.records == nil {
		return obj.DeepCopyObject().(T)
	}
	read := readSomehow
	if g.documents.transform != nil {
		read = readTransformed
	}
	return g.client.codec.join(obj, g.records.get(key), read)
}

// List returns the entities whose labels match. A key whose document does not decode has its last good version.
func (l lister[T]) List(selector labels.Selector) ([]T, error) {
	g, err := l.client.ready()
	if err != nil {
		return nil, err
	}
	own := g.writes.Keys() // before the store is listed; lookup says why
	stored := g.docs.GetStore().List()
	out := make([]T, 0, len(stored))
	add := func(obj T, key string) {
		if selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, g.join(obj, key))
		}
	}
	for _, item := range stored {
		key, err := cache.MetaNamespaceKeyFunc(item)
		if err != nil {
			return nil, err
		}
		if _, written := own[key]; written {
			continue // added below
		}
		if obj, ok := item.(T); ok {
			add(obj, key)
		}
	}
	for key := range own {
		if obj, _, found := g.lookup(key); found {
			add(obj, key)
		}
	}
	return out, nil
}

// OwnedBy returns the entities that name this kind and key as their owner; see IsOwnedBy. It uses the informer's index.
func (l lister[T]) OwnedBy(kind, key string) ([]T, error) {
	g, err := l.client.ready()
	if err != nil {
		return nil, err
	}
	var candidates []string
	values := OwnerIndexValues(kind, key)
	for _, value := range values {
		candidates = append(candidates, g.writes.Group(value)...) // before the store; lookup says why
	}
	for _, value := range values {
		indexed, err := g.docs.GetIndexer().IndexKeys(OwnerIndex, value)
		if err != nil {
			return nil, fmt.Errorf("index %q of kind %s: %w", OwnerIndex, l.client.cfg.Kind, err)
		}
		candidates = append(candidates, indexed...)
	}
	out := make([]T, 0, len(candidates))
	seen := make(map[string]bool, len(candidates))
	for _, name := range candidates {
		if seen[name] {
			continue
		}
		seen[name] = true
		// An own write may have deleted it or changed its owner.
		if obj, _, found := g.lookup(name); found && IsOwnedBy(obj, kind, key) {
			out = append(out, g.join(obj, name))
		}
	}
	return out, nil
}
