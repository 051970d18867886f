package entity

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// generation is one life of a client's informers, from its first user to its last. client-go's informers cannot run
// twice, so each start after a last stop makes a new generation. Its records are its own. Its documents may have other
// users, and go on for them.
type generation[T IEntity] struct {
	client    *Client[T]
	documents *documentCache[T]
	docs      natsinformer.Informer // that of documents
	public    *sharedInformer       // docs as users get it
	writes    *overlay[T]           // that of documents
	records   *recordCache          // nil without a status bucket

	running atomic.Bool
	began   time.Time // set before running
	synced  atomic.Bool
	users   int  // guarded by shared.mu
	visited bool // there were several users at once; guarded by shared.mu
	cancel  context.CancelFunc
	ctx     context.Context // ends with the generation; its goroutines are counted in wg
	wg      sync.WaitGroup

	reserved bool       // the informer of reserved keys was started; guarded by shared.mu
	news     *hookState // of the status bucket
	health   recordHealth
}

// recordHealth has the errors of the status bucket: it cannot be watched, or a record does not decode. Of the records
// one stands for all, as it was when it was found, until it is mended: another revision of it, or another record, is no
// news.
type recordHealth struct {
	mu         sync.Mutex
	watch      error
	reserved   error        // of the informer of reserved keys, which mostly fails with the other
	last       error        // what is reported of the watches
	unreadable *invalidKeys // by client-go's key
	named      []string     // some of them, which stay while they are
}

// mostNamed bounds how many keys an error names.
const mostNamed = 3

// change makes one change and reports the error that holds now, nil for none.
func (h *recordHealth) change(change func(), tell func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	switch {
	case h.watch != nil:
		h.last = h.watch
	case h.last == nil, h.reserved == nil: // else it works a moment after the other
		h.last = h.reserved
	}
	err := h.last
	if err == nil {
		err = h.unreadableErr()
	}
	tell(err)
}

// unreadableErr says why the first of the unreadable keys is one, and names some others.
func (h *recordHealth) unreadableErr() error {
	h.named = slices.DeleteFunc(h.named, func(key string) bool { _, still := h.unreadable.get(key); return !still })
	all := int(h.unreadable.size.Load())
	if all == 0 {
		return nil
	}
	if len(h.named) < min(all, mostNamed) {
		h.named = h.unreadable.some(mostNamed, h.named)
	}
	first, _ := h.unreadable.get(h.named[0])
	if all == 1 {
		return first.err
	}
	return fmt.Errorf("%w; and %d others, such as of %q", first.err, all-1, h.named[1:])
}

// newGeneration makes one with the current cache of documents, or a new one if there is none. The caller holds
// shared.mu.
func newGeneration[T IEntity](c *Client[T]) (*generation[T], error) {
	g := &generation[T]{client: c, news: c.hooks.renew(), documents: c.shared.current.Load()}
	g.health.unreadable = newInvalidKeys()
	if g.documents == nil {
		var err error
		if g.documents, err = newDocumentCache(c); err != nil {
			return nil, err
		}
		c.shared.current.Store(g.documents)
	}
	g.docs, g.writes = g.documents.informer, g.documents.writes
	g.public = newSharedInformer(startingInformer{g.docs, g.start, g.setTransform})
	g.public.ended = c.closed.Load()
	if c.records == nil {
		return g, nil
	}
	records, err := natsinformer.New(c.js, natsinformer.Config{
		Bucket:     c.cfg.StatusBucket,
		Filter:     c.cfg.Filter,
		Decode:     c.records.decode,
		OnInvalid:  g.recordInvalid,
		OnResolved: g.recordResolved,
		Unseen: func(natsKey string, deleted uint64) runtime.Object {
			return unseen(g.records.writes, c.records.keys, natsKey, deleted)
		},
		Arrived: func(e natsinformer.Entry) { g.news.arrived(c.cfg.StatusBucket, e) },
		ApartChanged: func(natsKey string, _ runtime.Object, now natsinformer.Apart) {
			if kept, is := now.(*apartRecord); is {
				g.news.tellApartRecord(kept.object(c.keys.display(natsKey), 0), false)
			}
		},
		ApartGone: func(natsKey string, was natsinformer.Apart, _ natsinformer.Deletion) {
			if kept, is := was.(*apartRecord); is {
				g.news.tellApartRecord(kept.object(c.keys.display(natsKey), 0), true)
			}
		},
		OnError: func(err error) { g.recordNews(func() { g.health.watch = err }) }, Reported: g.news.hearsErrors,
		OnSettings: func(s jetstream.StreamConfig) {
			g.news.setSettings(c.cfg.StatusBucket, c.records.bucket.changed(s, c.cfg))
		},
		CompareInterval: c.cfg.CompareInterval,
	})
	if err != nil {
		return nil, fmt.Errorf("informer of bucket %q: %w", c.cfg.StatusBucket, err)
	}
	g.records = &recordCache{
		informer: &startingInformer{records, g.start, g.noTransform},
		store:    records,
		writes:   newOverlay[*RecordObject](records, nil),
		running:  &g.running,

		unreadable: g.health.unreadable, display: c.keys.display,
	}
	return g, nil
}

// recordInvalid reports an unreadable record as an error of its bucket. Hooks.Invalid is for documents only.
func (g *generation[T]) recordInvalid(e natsinformer.Entry, err error) {
	key := g.client.keys.display(e.Key)
	err = printable.Error(fmt.Errorf("record of %s %s: %s", g.client.cfg.Kind, printable.Quote(key),
		g.client.records.unreadableText(e.Key, e.Revision, err)))
	g.recordNews(func() {
		if _, known := g.health.unreadable.get(key); !known { // another revision of it is no news
			g.health.unreadable.set(key, e.Revision, err)
		}
	})
}

func (g *generation[T]) recordResolved(natsKey string) {
	key := g.client.keys.display(natsKey)
	g.recordNews(func() { g.health.unreadable.remove(key) })
	g.news.setReadable(key)
}

func (g *generation[T]) recordNews(change func()) {
	g.health.change(change, func(err error) { g.news.setError(g.client.cfg.StatusBucket, err) })
}

// run starts the informers. The caller holds shared.mu.
func (g *generation[T]) run() {
	g.ctx, g.cancel = context.WithCancel(
		klog.NewContext(context.Background(),
			printable.Logger(klog.Background()).WithValues("kind", g.client.cfg.Kind)))
	g.client.async.hold()
	g.began = time.Now()
	g.running.Store(true)
	g.documents.useLocked()
	if g.records != nil {
		g.wg.Go(func() {
			tell := func(err error) { g.recordNews(func() { g.health.watch = err }) }
			if g.client.records.bucket.awaitOpen(g.ctx, tell) {
				g.records.store.RunWithContext(g.ctx)
			}
		})
	}
	g.runReserved()
}

// start is Client.Start for this generation; it fails if the generation is over.
func (g *generation[T]) start() (stop func(), err error) {
	c := g.client
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	if c.latest() != g {
		return nil, fmt.Errorf("this informer of kind %s has been stopped by its last user: "+
			"ask the client for another one", c.cfg.Kind)
	}
	return g.use(), nil
}

// use adds a user; the first one runs the informers. The caller holds shared.mu.
func (g *generation[T]) use() (stop func()) {
	g.client.started = true
	g.users++
	g.visited = g.visited || g.users > 1
	if g.users == 1 {
		g.run()
	}
	return sync.OnceFunc(func() { g.client.release(g) })
}

// startLazily makes the lister a user until Close, if the client was never started. A client that was stopped
// stays stopped: a late read must not restart the caches that their users have stopped.
func (c *Client[T]) startLazily() (*generation[T], error) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	if c.closed.Load() {
		return nil, fmt.Errorf("entity: the client of kind %s is closed", c.cfg.Kind)
	}
	g := c.generationLocked()
	if g.running.Load() {
		return g, nil
	}
	if c.started {
		return nil, newUnavailable(c.cfg.Kind, "",
			"the cache of kind %s was stopped by its last user: Start the client before reading its lister", c.cfg.Kind)
	}
	g.use()
	return g, nil
}

// release removes one user; the last one stops the informers and waits for them.
func (c *Client[T]) release(g *generation[T]) {
	c.shared.mu.Lock()
	g.users--
	last := g.users == 0 && c.current.Load() == g
	if last {
		c.dropLocked()
	}
	c.shared.mu.Unlock()
	if last {
		g.awaitEnd()
	}
}

// dropLocked ends the current generation and returns it; nil if there is none. The caller holds shared.mu, and then
// waits for the end.
func (c *Client[T]) dropLocked() *generation[T] {
	g := c.current.Swap(nil)
	if g != nil && g.running.Swap(false) {
		g.cancel()
		g.documents.leaveLocked()
	}
	return g
}

// awaitEnd waits for the informers of a generation that was dropped, and for the handlers that it had.
func (g *generation[T]) awaitEnd() {
	g.wg.Wait()
	g.public.end()
	g.documents.awaitEnd()
	if g.cancel != nil {
		g.client.async.release()
	}
	g.news.over()
}

// generation returns the current generation, or a new one if there is none. It panics if natsinformer refuses a
// configuration that it took when the client was made.
func (c *Client[T]) generation() *generation[T] {
	if g := c.latest(); g != nil {
		return g
	}
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	return c.generationLocked()
}

// latest returns the current generation; nil if there is none, or if it was never started and its cache of documents
// has ended with another client.
func (c *Client[T]) latest() *generation[T] {
	if g := c.current.Load(); g != nil && g.documents == c.shared.current.Load() {
		return g
	}
	return nil
}

func (c *Client[T]) generationLocked() *generation[T] {
	if g := c.latest(); g != nil {
		return g
	}
	g, err := newGeneration(c)
	if err != nil {
		panic(fmt.Sprintf("entity: %v", err))
	}
	c.current.Store(g)
	return g
}
