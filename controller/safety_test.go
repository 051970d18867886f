package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// What the tests about safe deletes share.

// quickLease lets another replica take over within about a second. It is for tests in which a lease has to run out: a
// process that does not run for as long loses it, too.
var quickLease = LeaseTiming{Duration: time.Second, RenewDeadline: 700 * time.Millisecond,
	RetryPeriod: 200 * time.Millisecond}

// longLease is not lost when the machine is busy for some seconds. Once it is released another replica takes over as
// soon as with quickLease.
var longLease = LeaseTiming{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second,
	RetryPeriod: 200 * time.Millisecond}

// quickCompare makes a client's informers notice soon what the server tells by no event.
func quickCompare(cfg *entity.Config) { cfg.CompareInterval = 200 * time.Millisecond }

func onDisk(cfg *entity.Config) { cfg.Storage = jetstream.FileStorage }

// away is a world that sees the same server through a connection of its own, as another process would.
func (w *world) away() *world {
	w.t.Helper()
	_, js := natstest.Connect(w.t, w.server.URL())
	return &world{t: w.t, server: w.server, js: js}
}

func (w *world) kv(bucket string) jetstream.KeyValue {
	w.t.Helper()
	kv, err := w.js.KeyValue(w.t.Context(), bucket)
	must(w.t, err)
	return kv
}

// raw is what a key holds on the wire; nil if nothing.
func (w *world) raw(bucket, key string) map[string]any {
	w.t.Helper()
	ctx := context.Background() // it may be a cleanup that asks
	kv, err := w.js.KeyValue(ctx, bucket)
	must(w.t, err)
	entry, err := kv.Get(ctx, key)
	if err != nil {
		return nil
	}
	var value map[string]any
	if err := json.Unmarshal(entry.Value(), &value); err != nil {
		w.t.Errorf("%s/%s does not decode: %v", bucket, key, err)
	}
	return value
}

// emptied removes all messages of a bucket by the API, which no watcher is told.
func (w *world) emptied(bucket string) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	must(w.t, stream.Purge(w.t.Context(), jetstream.WithPurgeSubject("$KV."+bucket+".>")))
}

func siteName(i int) string { return fmt.Sprintf("site-%02d", i) }

// make puts n documents, those that are missing.
func (w *world) make(sites *entity.Client[*site], n int) {
	w.t.Helper()
	for i := range n {
		if err := sites.Create(w.t.Context(), newSite(siteName(i), "t")); !apierrors.IsAlreadyExists(err) {
			must(w.t, err)
		}
	}
}

// count is how many entities there are, live.
func count(t *testing.T, client *entity.Client[*site]) int {
	t.Helper()
	all, err := client.List(t.Context())
	must(t, err)
	return len(all)
}

// synced waits until n sites are reconciled and have a page each.
func (w *world) settled(c *Controller[*site], sites *entity.Client[*site], n int) {
	w.t.Helper()
	natstest.Eventually(w.t, fmt.Sprintf("%d sites are reconciled", n), func() bool {
		for i := range n {
			record, err := sites.Record(w.t.Context(), siteName(i))
			if err != nil || record.ObservedRevision == 0 {
				return false
			}
		}
		return true
	})
	_ = c
}

func gone(t *testing.T, client *entity.Client[*site], key string) func() bool {
	return func() bool {
		_, err := client.Get(t.Context(), key)
		return apierrors.IsNotFound(err)
	}
}

func noRecord(t *testing.T, client *entity.Client[*site], key string) func() bool {
	return func() bool {
		_, err := client.Record(t.Context(), key)
		return apierrors.IsNotFound(err)
	}
}

func exists(t *testing.T, client *entity.Client[*site], key string) bool {
	t.Helper()
	_, err := client.Get(t.Context(), key)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// degradedNow tells whether Stats names a degraded source of this kind.
func degradedNow(c *Controller[*site], name string) func() bool {
	return func() bool {
		for source := range c.Stats().Degraded {
			if strings.HasPrefix(source, name) {
				return true
			}
		}
		return false
	}
}

// hooked is a client whose calls a test can look into.
type hooked struct {
	*entity.Client[*site]
	mu           sync.Mutex
	afterConfirm func(key string, found entity.Presence)
	onDelete     func(key string, remove func() error) error
}

func (h *hooked) hook(set func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	set()
}

func (h *hooked) EnginePort() entity.EnginePort[*site] {
	return confirms{h.Client.EnginePort(), h.Confirm}
}

// confirms is the port of a client that asks the leader as a test wants.
type confirms struct {
	entity.EnginePort[*site]
	confirm func(ctx context.Context, key string) (entity.Presence, error)
}

func (p confirms) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	return p.confirm(ctx, key)
}

func (h *hooked) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	found, err := h.Client.Confirm(ctx, key)
	h.mu.Lock()
	f := h.afterConfirm
	h.mu.Unlock()
	if f != nil && err == nil {
		f(key, found)
	}
	return found, err
}

func (h *hooked) Delete(ctx context.Context, key string, opts ...entity.DeleteOption) error {
	h.mu.Lock()
	f := h.onDelete
	h.mu.Unlock()
	remove := func() error { return h.Client.Delete(ctx, key, opts...) }
	if f == nil {
		return remove()
	}
	return f(key, remove)
}

// foreignPage is a page of another installation that names a site of the same key.
func foreignPage(name, owner string) *page {
	p := &page{ObjectMeta: metav1.ObjectMeta{Name: name}}
	entity.SetOwner(p, "Site", owner, "another-installation")
	return p
}

// ownedPage is a page of this installation.
func (w *world) ownedPage(name, owner string) *page {
	w.t.Helper()
	entry, err := w.kv("sites-status").Get(w.t.Context(), record.KeyInstance)
	must(w.t, err)
	p := &page{ObjectMeta: metav1.ObjectMeta{Name: name}}
	entity.SetOwner(p, "Site", owner, string(entry.Value()))
	return p
}

// blind is a client whose cache lacks one key that exists.
type blind struct {
	*entity.Client[*site]
	hidden    string
	confirmed atomic.Int64
}

func (b *blind) EnginePort() entity.EnginePort[*site] {
	return confirms{b.Client.EnginePort(), b.Confirm}
}

func (b *blind) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	defer b.confirmed.Add(1)
	return b.Client.Confirm(ctx, key)
}

func (b *blind) Informer() natsinformer.Informer {
	return blindInformer{Informer: b.Client.Informer(), hidden: b.hidden}
}

type blindInformer struct {
	natsinformer.Informer
	hidden string
}

func (i blindInformer) Exists(key string) bool { return key != i.hidden && i.Informer.Exists(key) }

func (i blindInformer) GetStore() cache.Store {
	return blindStore{Store: i.Informer.GetStore(), hidden: i.hidden}
}

func (i blindInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			o, ok := source.MetaObject(obj)
			return !ok || source.ObjectKey(o) != i.hidden
		},
		Handler: handler,
	})
}

type blindStore struct {
	cache.Store
	hidden string
}

func (s blindStore) GetByKey(key string) (any, bool, error) {
	if key == s.hidden {
		return nil, false, nil
	}
	return s.Store.GetByKey(key)
}

func (s blindStore) ListKeys() []string {
	return slices.DeleteFunc(s.Store.ListKeys(), func(key string) bool { return key == s.hidden })
}
