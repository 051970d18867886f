package controllerruntime

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
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

func newSite(name, title string) *site {
	return &site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: siteSpec{Title: title}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// calls records what a reconciler was called with.
type calls struct {
	mu   sync.Mutex
	list []controller.Request
}

func (c *calls) add(req controller.Request) {
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

func siteName(i int) string { return fmt.Sprintf("site-%02d", i) }

// make makes n sites.
func (w *world) make(sites *entity.Client[*site], n int) {
	w.t.Helper()
	for i := range n {
		must(w.t, sites.Create(w.t.Context(), newSite(siteName(i), "t")))
	}
}

// many is enough for a mass delete.
const many = 20

// notInATest is an interval that does not come.
const notInATest = time.Hour

// quick makes an external client quick enough for tests.
var quick = external.Config{
	Interval: 20 * time.Millisecond, Timeout: 5 * time.Second,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
}

// quickly makes external.Reconcile quick enough for tests.
var quickly = []external.Option{external.Settle(500 * time.Millisecond), external.PollInterval(10 * time.Millisecond)}

func withInterval(d time.Duration) external.Config {
	config := quick
	config.Interval = d
	return config
}

func sized(name string, pages int) *site {
	s := newSite(name, "")
	s.Spec.Pages = pages
	return s
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

// kubeInformer is client-go's fake of an API server that has ConfigMaps, and an informer that runs over it. What is
// added between the informer's list and its watch makes this fake ask for another list, which comes a second later.
func kubeInformer(
	t *testing.T, initial ...*corev1.ConfigMap,
) (*fcache.FakeControllerSource, cache.SharedIndexInformer) {
	t.Helper()
	server := fcache.NewFakeControllerSource()
	for _, m := range initial {
		server.Add(m)
	}
	informer := cache.NewSharedIndexInformer(server, &corev1.ConfigMap{}, 0, cache.Indexers{})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		informer.Run(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		server.Shutdown()
	})
	return server, informer
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Data: map[string]string{"value": value}}
}

// owned makes the site with that key obj's owner, as the runtime would.
func owned[T metav1.Object](obj T, key string) T {
	entity.SetOwner(obj, "Site", key, "")
	return obj
}

func newPage(name, title string) *page { return newSite(name, title) }

// noRecord reports whether a site has no record.
func noRecord(t *testing.T, client *entity.Client[*site], key string) func() bool {
	return func() bool {
		_, err := client.Record(t.Context(), key)
		return apierrors.IsNotFound(err)
	}
}
