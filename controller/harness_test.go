package controller

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type siteSpec struct {
	Title string `json:"title,omitempty"`
	Pages int    `json:"pages,omitempty"`
}

type siteStatus struct {
	Ready bool   `json:"ready,omitempty"`
	Note  string `json:"note,omitempty"`
}

// site is the primary of these tests, page its secondary, theme a tertiary.
type (
	site  = entity.Object[siteSpec, siteStatus]
	page  = entity.Object[siteSpec, siteStatus]
	theme = entity.Object[siteSpec, siteStatus]
)

// world is a server and what a test needs of it.
type world struct {
	t      *testing.T
	server *natstest.Server
	js     jetstream.JetStream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	return &world{t: t, server: server, js: js}
}

// client makes a client of its own for a kind, as another process would have it.
func (w *world) client(kind, bucket string, change ...func(*entity.Config)) *entity.Client[*site] {
	w.t.Helper()
	cfg := entity.Config{Kind: kind, Bucket: bucket, Storage: jetstream.MemoryStorage}
	for _, f := range change {
		f(&cfg)
	}
	client, err := entity.NewClient[*site](w.t.Context(), w.js, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

func (w *world) sites() *entity.Client[*site] { w.t.Helper(); return w.client("Site", "sites") }
func (w *world) pages() *entity.Client[*page] { w.t.Helper(); return w.client("Page", "pages") }

// running is a controller that runs, and is stopped at the end of the test.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (w *world) run(c interface{ Run(context.Context) error }) *running {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: w.t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	w.t.Cleanup(r.halt)
	return r
}

// halt stops the controller and fails the test if it did not stop gracefully.
func (r *running) halt() {
	r.t.Helper()
	r.stop()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		r.t.Fatal("the controller did not stop within a minute")
	}
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
	r.err = nil
}

func newSite(name, title string) *site {
	return &site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: siteSpec{Title: title}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isHealthy waits until nothing is degraded. A watch that has heard nothing for a second is, until it hears again.
func isHealthy[T entity.IEntity](t *testing.T, c *Controller[T]) {
	t.Helper()
	natstest.Eventually(t, "nothing is degraded", func() bool { return len(c.Stats().Degraded) == 0 })
}

// toldOf records what a callback was told.
type toldOf[T any] struct {
	mu   sync.Mutex
	list []T
}

func (o *toldOf[T]) add(one T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, one)
}

func (o *toldOf[T]) all() []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.list)
}

// calls records what a reconciler was called with.
type calls struct {
	mu   sync.Mutex
	list []Request
}

func (c *calls) add(req Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, req)
}

// of returns the operations of each call for a key, in order.
func (c *calls) of(key string) []Operations {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ops []Operations
	for _, req := range c.list {
		if req.Key == key {
			ops = append(ops, req.Operations)
		}
	}
	return ops
}

// keys are those of all calls, in order.
func (c *calls) keys() (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, req := range c.list {
		keys = append(keys, req.Key)
	}
	return keys
}

func (c *calls) count(key string) int { return len(c.of(key)) }

// with counts the calls for a key that had the operation.
func (c *calls) with(key string, op Operation) int {
	n := 0
	for _, ops := range c.of(key) {
		if ops.Has(op) {
			n++
		}
	}
	return n
}

// reconciler records its calls and then does what f says; nil does nothing.
func (c *calls) reconciler(f ReconcilerFunc) Reconciler {
	return ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		c.add(req)
		if f == nil {
			return Result{}, nil
		}
		return f(ctx, req)
	})
}

// undone is the number of keys that wait for a worker, or have one.
func undone(c queue.Counts) (n int) {
	for _, ready := range c.Ready {
		n += ready
	}
	return n + c.InProgress
}
