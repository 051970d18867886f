package entity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// generation is one life of a client's informers, from its first user to its last. client-go's informers cannot run
// twice, so each start after a last stop makes a new generation.
type generation[T IEntity] struct {
	client  *Client[T]
	docs    natsinformer.Informer
	public  natsinformer.Informer // docs as users get it
	writes  *overlay[T]
	records *recordCache // nil without a status bucket

	running atomic.Bool
	synced  atomic.Bool
	users   int // guarded by client.mu
	cancel  context.CancelFunc
	ctx     context.Context // ends with the generation; its goroutines are counted in wg
	wg      sync.WaitGroup

	reserved bool // the informer of reserved keys was started; guarded by client.mu
	news     *hookState
	health   recordHealth
}

// recordHealth has the errors of the status bucket: it cannot be watched, or a record does not decode. Of the records
// one stands for all, as it was when it was found, until it is mended: another revision of it, or another record, is no
// news.
type recordHealth struct {
	mu         sync.Mutex
	watch      error
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
	err := h.watch
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

func newGeneration[T IEntity](c *Client[T]) (*generation[T], error) {
	g := &generation[T]{client: c, news: c.hooks.renew()}
	g.health.unreadable = newInvalidKeys()
	docs, err := natsinformer.New(c.js, natsinformer.Config{
		Bucket: c.cfg.Bucket,
		Filter: c.cfg.Filter,
		Decode: c.decodeEntry,
		OnInvalid: func(e natsinformer.Entry, err error) {
			g.news.setInvalid(c.keys.display(e.Key), e.Revision, err)
		},
		OnResolved: func(natsKey string) { g.news.setResolved(c.keys.display(natsKey)) },
		Unseen: func(natsKey string, deleted uint64) runtime.Object {
			return unseen(g.writes, c.keys, natsKey, deleted)
		},
		OnError:         func(err error) { g.news.setError(c.cfg.Bucket, err) },
		Indexers:        cache.Indexers{OwnerIndex: ownerIndexFunc},
		CompareInterval: c.cfg.CompareInterval,
		DocumentsExpire: c.cfg.DocumentsExpire,
	})
	if err != nil {
		return nil, fmt.Errorf("informer of bucket %q: %w", c.cfg.Bucket, err)
	}
	g.docs, g.public = docs, &startingInformer{Informer: docs, start: g.start}
	g.writes = newOverlay(docs, func(obj T) string { return OwnerIndexValueOf(obj) })
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
		OnError:         func(err error) { g.recordNews(func() { g.health.watch = err }) },
		CompareInterval: c.cfg.CompareInterval,
	})
	if err != nil {
		return nil, fmt.Errorf("informer of bucket %q: %w", c.cfg.StatusBucket, err)
	}
	g.records = &recordCache{
		informer: &startingInformer{Informer: records, start: g.start},
		store:    records,
		writes:   newOverlay[*RecordObject](records, nil),
		running:  &g.running,

		unreadable: g.health.unreadable,
	}
	return g, nil
}

// recordInvalid reports an unreadable record as an error of its bucket. Hooks.Invalid is for documents only.
func (g *generation[T]) recordInvalid(e natsinformer.Entry, err error) {
	key := g.client.keys.display(e.Key)
	err = foreign.Error(fmt.Errorf("record of %s %s: %s", g.client.cfg.Kind, foreign.Quote(key),
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

// run starts the informers. The caller holds client.mu.
func (g *generation[T]) run() {
	g.ctx, g.cancel = context.WithCancel(
		klog.NewContext(context.Background(),
			foreign.Logger(klog.Background()).WithValues("kind", g.client.cfg.Kind)))
	g.client.async.hold()
	g.running.Store(true)
	g.wg.Go(func() { g.docs.RunWithContext(g.ctx) })
	if g.records != nil {
		g.wg.Go(func() { g.records.store.RunWithContext(g.ctx) })
	}
	g.runReserved()
}

// runReserved watches the reserved keys once a subscriber wants them. They have their own informer, because a filter
// may exclude them from that of the records, and so that no event handler has to look at every record. The caller holds
// client.mu.
func (g *generation[T]) runReserved() {
	c := g.client
	if g.reserved || g.records == nil || !g.running.Load() || !c.hooks.wantsReserved() {
		return
	}
	informer, err := natsinformer.New(c.js, natsinformer.Config{
		Bucket:          c.cfg.StatusBucket,
		Filter:          reservedFilter,
		Decode:          decodeReserved,
		CompareInterval: c.cfg.CompareInterval,
	})
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { g.reservedChanged(obj, false) },
			UpdateFunc: func(_, obj any) { g.reservedChanged(obj, false) },
			DeleteFunc: func(obj any) { g.reservedChanged(obj, true) },
		})
	}
	if err != nil {
		g.news.setError(c.cfg.StatusBucket,
			fmt.Errorf("informer of reserved keys of bucket %q: %w", c.cfg.StatusBucket, err))
		return
	}
	g.reserved = true
	g.wg.Go(func() { informer.RunWithContext(g.ctx) })
}

func (g *generation[T]) reservedChanged(obj any, deleted bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o, ok := obj.(*reservedObject)
	if !ok {
		return
	}
	if deleted {
		// The informer passes the last object with the revision of the delete.
		revision, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
		if err != nil {
			revision = o.revision
		}
		g.news.setReserved(o.Name, revision, nil)
		return
	}
	g.news.setReserved(o.Name, o.revision, o.value)
}

// start is Client.Start for this generation; it fails if the generation is over.
func (g *generation[T]) start() (stop func(), err error) {
	c := g.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() != g {
		return nil, fmt.Errorf("this informer of kind %s has been stopped by its last user: "+
			"ask the client for another one", c.cfg.Kind)
	}
	return g.use(), nil
}

// use adds a user; the first one runs the informers. The caller holds client.mu.
func (g *generation[T]) use() (stop func()) {
	g.client.started = true
	g.users++
	if g.users == 1 {
		g.run()
	}
	return sync.OnceFunc(func() { g.client.release(g) })
}

// startLazily makes the lister a user until Close, if nobody has ever started the client. A client that was stopped
// stays stopped: a late read must not restart the caches that their users have stopped.
func (c *Client[T]) startLazily() (*generation[T], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c.mu.Lock()
	g.users--
	last := g.users == 0 && c.current.Load() == g
	if last {
		c.current.Store(nil)
	}
	c.mu.Unlock()
	if last {
		g.shutdown()
	}
}

func (g *generation[T]) shutdown() {
	g.running.Store(false)
	if g.cancel != nil {
		g.cancel()
	}
	g.wg.Wait()
	if g.cancel != nil {
		g.client.async.release()
	}
	g.news.over()
}

// generation returns the current generation, or a new one if there is none. It panics if natsinformer refuses a
// configuration that it took when the client was made.
func (c *Client[T]) generation() *generation[T] {
	if g := c.current.Load(); g != nil {
		return g
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generationLocked()
}

func (c *Client[T]) generationLocked() *generation[T] {
	if g := c.current.Load(); g != nil {
		return g
	}
	g, err := newGeneration(c)
	if err != nil {
		panic(fmt.Sprintf("entity: %v", err))
	}
	c.current.Store(g)
	return g
}

// startingInformer is an informer whose Run is a user of its client. It starts documents and records. When its context
// ends, it releases them and returns.
type startingInformer struct {
	natsinformer.Informer
	start func() (stop func(), err error)
}

// Run blocks until stopCh is closed. Prefer Client.Start.
func (i *startingInformer) Run(stopCh <-chan struct{}) {
	stop, err := i.start()
	if err != nil {
		klog.Background().Error(err, "Informer was not started")
		return
	}
	defer stop()
	<-stopCh
}

// RunWithContext blocks until the context ends. Prefer Client.Start.
func (i *startingInformer) RunWithContext(ctx context.Context) {
	stop, err := i.start()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Informer was not started")
		return
	}
	defer stop()
	<-ctx.Done()
}
