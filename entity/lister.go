package entity

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	item, found, err := g.getHeld(key)
	if err != nil {
		return none, err
	}
	if !found {
		if known, _ := g.documents.held.Known(natsKeyOf(key)); known != nil { // apart, or about to come
			return none, newNotCached(c.cfg.Kind, key)
		}
		return none, newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
	}
	return g.joinHeld(item, key), nil
}

// getHeld returns the shared document of a key, as the cache holds it, or as this process wrote it since. The error is
// IsInvalid.
func (g *generation[T]) getHeld(key string) (item any, found bool, err error) {
	item, revision, found, refused := g.documents.lookHeld(key)
	if refused != nil {
		return item, true, refused
	}
	if state, invalid := g.documents.news.invalid.get(key); invalid && revision < state.revision &&
		!g.documents.isAhead(key) {
		return item, true, newInvalid(g.client.cfg.Kind, g.client.cfg.Bucket, key, "document",
			fmt.Sprintf("revision %d: %v", state.revision, state.err))
	}
	return item, found, nil
}

// lookup is getHeld of an unpacked document, but returns the last good version of an invalid one. It reads own writes
// before the store: a write that the overlay has dropped by then is in the store. The revision is that of the document
// or of an own delete.
func (g *generation[T]) lookup(key string) (obj T, revision uint64, found bool) {
	return g.documents.lookup(key)
}

func (d *documentCache[T]) lookup(key string) (obj T, revision uint64, found bool) {
	obj, revision, found, _ = d.look(key)
	return obj, revision, found
}

// look is lookup, and says why the cache will not take an own write.
func (d *documentCache[T]) look(key string) (obj T, revision uint64, found bool, refused error) {
	item, revision, found, refused := d.lookHeld(key)
	obj, _ = d.unpack(item).(T)
	return obj, revision, found, refused
}

// revisionOf is lookup for who needs no object.
func (d *documentCache[T]) revisionOf(key string) (revision uint64, found bool) {
	_, revision, found, _ = d.lookHeld(key)
	return revision, found
}

// lookHeld is look without unpacking what the cache holds.
func (d *documentCache[T]) lookHeld(key string) (item any, revision uint64, found bool, refused error) {
	own, written := d.writes.Get(key)
	item, exists, err := d.held.GetStore().GetByKey(key)
	if exists && err == nil {
		switch held := item.(type) {
		case *packed:
			revision, found = uint64(held.GetGeneration()), true
		case T:
			revision, found = uint64(held.GetGeneration()), true
		}
	}
	if !written || revision > own.revision && !own.isAheadOf(d.held) {
		return item, revision, found, nil
	}
	if own.refused != nil {
		return item, own.revision, found, own.refused
	}
	return own.value, own.revision, !own.deleted, nil
}

// isAhead reports whether this process wrote the key in a stream that the cache does not show yet.
func (d *documentCache[T]) isAhead(key string) bool {
	own, written := d.writes.Get(key)
	return written && own.isAheadOf(d.held)
}

// joinHeld is join of what the cache holds. What is packed gets its labels and annotations after it was copied.
func (g *generation[T]) joinHeld(item any, key string) T {
	held, is := item.(*packed)
	if !is {
		return g.join(item.(T), key)
	}
	bare, is := held.IEntity.(T)
	if !is {
		return g.join(g.documents.unpack(item).(T), key)
	}
	out := g.join(bare, key)
	meta := g.documents.packer.metaOf(out)
	meta.Labels, meta.Annotations = held.GetLabels(), held.GetAnnotations()
	return out
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
	return l.ListMatching(ListOptions{Labels: selector})
}

// ByIndex returns the entities that have the value in the index.
func (l lister[T]) ByIndex(index, value string) ([]T, error) {
	return l.ListMatching(ListOptions{Index: index, Value: value})
}

// ListMatching returns the entities that the options choose. It looks at all, unless an index is given.
func (l lister[T]) ListMatching(o ListOptions) ([]T, error) {
	if err := l.client.checkListOptions(o); err != nil {
		return nil, err
	}
	if l.client.division() != nil {
		return nil, newNotCached(l.client.cfg.Kind, "")
	}
	g, err := l.client.ready()
	if err != nil {
		return nil, err
	}
	documents := g.documents.all()
	if o.Index != "" {
		documents = g.documents.by(o.Index, o.Value)
	}
	out := []T{}
	for key, obj := range documents {
		if o.matches(obj) {
			out = append(out, g.join(obj, key))
		}
	}
	return out, nil
}

// OwnedBy returns the entities that name this kind and key as their owner; see IsOwnedBy. It uses the informer's index.
func (l lister[T]) OwnedBy(kind, key string) ([]T, error) {
	if d := l.client.division(); d != nil && d.Owners == kind && !d.Parts.Has(key) {
		return nil, newNotCached(l.client.cfg.Kind, "")
	}
	g, err := l.client.ready()
	if err != nil {
		return nil, err
	}
	out := []T{}
	mayBe := func(name string) bool { return g.documents.mayBeOwned(name, kind, key) }
	for _, name := range g.documents.keysBy(OwnerIndex, mayBe, OwnerIndexValues(kind, key)...) {
		// An own write may have deleted it or changed its owner.
		if obj, _, found := g.lookup(name); found && IsOwnedBy(obj, kind, key) {
			out = append(out, g.join(obj, name))
		}
	}
	return out, nil
}

// mayBeOwned spares the sorting and unpacking of the objects that others own under the same value of the index.
func (d *documentCache[T]) mayBeOwned(name, kind, key string) bool {
	if _, written := d.writes.Get(name); written {
		return true
	}
	item, _, _ := d.held.GetStore().GetByKey(name)
	held, is := item.(*packed)
	return !is || IsOwnedBy(held, kind, key)
}

// all are the documents, own writes included, by key. They are shared.
func (d *documentCache[T]) all() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		own := d.writes.Keys() // before the store is listed; lookup says why
		for obj := range d.each() {
			key := cache.MetaObjectToName(obj).String()
			if _, written := own[key]; !written && !yield(key, obj) {
				return
			}
		}
		for key := range own {
			if obj, _, found := d.lookup(key); found && !yield(key, obj) {
				return
			}
		}
	}
}
