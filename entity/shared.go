package entity

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/intern"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// sharing is what a client has in common with those derived from it: one cache of documents, with one overlay of own
// writes.
type sharing[T IEntity] struct {
	// mu guards the starting and stopping of all the clients.
	mu      sync.Mutex
	current atomic.Pointer[documentCache[T]]
	hooks   *hookSet // the news of documents
	// oddities is what is known of the revisions that one of the clients has read.
	oddities *oddities
	indexes  indexes[T]
	// statusBuckets are those of the clients that are not closed. A second client of one would have another overlay.
	statusBuckets map[string]bool
	// transform is that of the cache of documents, and of those after it; nil: none. It changes while no cache runs,
	// and with mu held.
	transform atomic.Pointer[transformer[T]]
	// division is what of the documents the cache keeps, and those after it; nil: all. It changes while no cache runs,
	// and with mu held.
	division atomic.Pointer[division]
}

func newSharing[T IEntity](statusBucket string, indexes indexes[T]) *sharing[T] {
	return &sharing[T]{
		hooks: newHookSet(), oddities: newOddities(), indexes: indexes,
		statusBuckets: map[string]bool{statusBucket: true},
	}
}

// claim takes a status bucket for one client.
func (s *sharing[T]) claim(cfg Config) error {
	if !cfg.hasStatus() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.statusBuckets[cfg.StatusBucket] {
		return fmt.Errorf("the status bucket %q of kind %s has a client already, which shares this cache: use that "+
			"one, or close it first", cfg.StatusBucket, cfg.Kind)
	}
	s.statusBuckets[cfg.StatusBucket] = true
	return nil
}

// disclaim gives it back.
func (s *sharing[T]) disclaim(cfg Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.statusBuckets, cfg.StatusBucket)
}

// documentCache is one life of the informer of documents, from its first user to its last. Its users are the
// generations that run, of all the clients that share it.
type documentCache[T IEntity] struct {
	shared *sharing[T]
	// held is the informer with the objects as the cache holds them, some of them packed; informer has all unpacked.
	held, informer natsinformer.Informer
	packer         *packer[T] // nil: none is packed

	writes *overlay[T]
	news   *hookState
	// transform is nil if there is none; set with the first user.
	transform *transformer[T]
	originals *originals
	pool      intern.Pool

	awaitOpen func(ctx context.Context) bool
	running   atomic.Bool
	users     int // guarded by shared.mu
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// newDocumentCache makes one for the client and those it shares with. The configurations of documents are the same.
func newDocumentCache[T IEntity](c *Client[T]) (*documentCache[T], error) {
	d := &documentCache[T]{shared: c.shared, news: c.shared.hooks.renew(), originals: newOriginals()}
	cfg, keys := c.cfg, c.keys
	d.packer = newPacker(c.codec, &d.pool)
	var err error
	d.held, err = natsinformer.New(c.js, natsinformer.Config{
		Bucket: cfg.Bucket,
		Filter: cfg.Filter,
		Decode: func(e natsinformer.Entry) (runtime.Object, error) { return d.decode(c, e) },
		OnInvalid: func(e natsinformer.Entry, err error) {
			d.news.setInvalid(keys.display(e.Key), e.Revision, err)
		},
		OnResolved: func(natsKey string) { d.news.setResolved(keys.display(natsKey)) },
		Unseen: func(natsKey string, deleted uint64) runtime.Object {
			return unseen(d.writes, keys, natsKey, deleted)
		},
		Arrived: func(e natsinformer.Entry) { d.news.arrived(cfg.Bucket, e) },
		ApartChanged: func(natsKey string, before runtime.Object, now natsinformer.Apart) {
			d.news.tellApart(keys.display(natsKey), before, now, d.unpack)
		},
		ApartGone: func(natsKey string, _ natsinformer.Apart, how natsinformer.Deletion) {
			d.news.tellApartGone(keys.display(natsKey), how)
		},
		OnError: func(err error) { d.news.setError(cfg.Bucket, err) }, Reported: d.news.hearsErrors,
		OnSettings: func(s jetstream.StreamConfig) {
			d.news.setSettings(cfg.Bucket, c.documents.changed(s, cfg))
		},
		Indexers:        c.shared.indexes.indexers(d.unpack),
		CompareInterval: cfg.CompareInterval,
		DocumentsExpire: cfg.DocumentsExpire,
	})
	if err != nil {
		return nil, fmt.Errorf("informer of bucket %q: %w", cfg.Bucket, err)
	}
	if d.informer = d.held; d.packer != nil {
		d.informer = newUnpacking(d.held, d.unpack)
	}
	d.awaitOpen = func(ctx context.Context) bool {
		return c.documents.awaitOpen(ctx, func(err error) { d.news.setError(cfg.Bucket, err) })
	}
	d.writes = newOverlay(d.held, c.shared.indexes.groups)
	d.ctx, d.cancel = context.WithCancel(
		klog.NewContext(context.Background(), printable.Logger(klog.Background()).WithValues("kind", cfg.Kind)))
	return d, nil
}

// useLocked adds a user; the first one runs the informer.
func (d *documentCache[T]) useLocked() {
	d.users++
	if d.users == 1 {
		d.transform = d.shared.transform.Load()
		d.running.Store(true)
		d.wg.Go(func() {
			if d.awaitOpen(d.ctx) {
				d.informer.RunWithContext(d.ctx)
			}
		})
	}
}

// leaveLocked removes a user. After the last one the informer ends, and the next user gets another.
func (d *documentCache[T]) leaveLocked() {
	d.users--
	if d.users == 0 {
		d.shared.current.Store(nil)
		d.running.Store(false)
		d.cancel()
	}
}

// awaitEnd waits for the informer and its handlers, if it has no users any more.
func (d *documentCache[T]) awaitEnd() {
	if d.ctx.Err() != nil {
		d.wg.Wait()
		d.news.over()
	}
}

// runningDocuments returns the cache of documents if it runs, for this client or for one that shares it; else nil.
func (c *Client[T]) runningDocuments() *documentCache[T] {
	if d := c.shared.current.Load(); d != nil && d.running.Load() {
		return d
	}
	return nil
}

// share makes the client's first generation, to find out at once whether natsinformer takes the configuration.
func (c *Client[T]) share() error {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	g, err := newGeneration(c)
	if err == nil {
		c.current.Store(g)
	}
	return err
}
