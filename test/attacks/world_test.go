package attacks

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

type spec struct {
	Title string `json:"title,omitempty"`
}

type site = entity.Object[spec, spec]

var (
	sites  = entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true, Storage: jetstream.MemoryStorage}
	pages  = entity.Config{Kind: "Page", Bucket: "pages", Namespaced: true, Storage: jetstream.MemoryStorage}
	themes = entity.Config{Kind: "Theme", Bucket: "themes", Storage: jetstream.MemoryStorage}
)

// each is how many sites there are in each of ns1 and ns2.
const each = 3

// world is a server with the documented configuration, and two replicas of a controller that makes a page for each
// site.
type world struct {
	t        *testing.T // the one that runs now
	made     *testing.T // the one at whose end all ends
	server   *natstest.Server
	admin    jetstream.JetStream
	replicas []*replica
	log      syncBuffer
	mu       sync.Mutex
	calls    []controller.Request
	two      atomic.Bool // replicas were seen to lead at once
	settled  int
	pages    map[string]uint64 // those of ns2, with their revisions
}

// syncBuffer is a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type replica struct {
	*controller.Controller[*site]
	sites, pages *entity.Client[*site]
	stop         func()
}

// controllersSet is what the controller of these tests says that it needs.
var controllersSet = sync.OnceValues(func() (set entity.PermissionSet, err error) {
	srv, err := natstest.New()
	if err != nil {
		return set, err
	}
	defer srv.Close()
	w := &world{}
	r, closed, err := w.replicaOf(context.Background(), srv.URL(), false)
	if err != nil {
		return set, err
	}
	defer closed()
	all, err := r.Permissions(entity.WithInboxPrefix("_INBOX_controller"))
	return all.PermissionSet, err
})

func newWorld(t *testing.T) *world {
	t.Helper()
	set, err := controllersSet()
	must(t, err)
	w := &world{t: t, made: t, server: configure(t, set)}
	w.admin, _ = connect(t, w.server, "admin", "x")
	boot, _ := connect(t, w.server, "bootstrap", "change me 1")
	for cfg, js := range map[*entity.Config]jetstream.JetStream{&sites: boot, &pages: w.admin, &themes: w.admin} {
		client, err := entity.NewClient[*site](t.Context(), js, *cfg)
		must(t, err)
		client.Close()
	}
	for _, ns := range []string{"ns1", "ns2"} {
		for i := range each {
			w.put(fmt.Sprintf("$KV.sites.%s.s%d", ns, i), `{"spec":{"title":"as it was"}}`)
		}
	}
	w.start()
	w.start()
	w.watchLeaders()
	natstest.Eventually(t, "each site has its page", func() bool { return len(w.keys("pages", "")) == 2*each })
	w.settle()
	w.pages = w.keys("pages", "ns2.")
	return w
}

// put writes as an administrator.
func (w *world) put(subject, value string) {
	w.t.Helper()
	_, err := w.admin.Publish(w.t.Context(), subject, []byte(value))
	must(w.t, err)
}

// start runs one more replica.
func (w *world) start() {
	w.t.Helper()
	r, closed, err := w.replicaOf(w.t.Context(), w.server.URL(), true)
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ctx = klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&w.log))))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		closed()
	})
	w.replicas = append(w.replicas, r)
	w.made.Cleanup(r.stop)
}

func (w *world) replicaOf(ctx context.Context, url string, asController bool) (r *replica, closed func(), err error) {
	nc, js, err := dial(url, asController)
	if err != nil {
		return nil, nil, err
	}
	r = &replica{}
	closed = func() { // the clients before their connection
		for _, client := range []*entity.Client[*site]{r.sites, r.pages} {
			if client != nil {
				client.Close()
			}
		}
		nc.Close()
	}
	if r.sites, err = entity.NewClient[*site](ctx, js, sites); err == nil {
		r.pages, err = entity.NewClient[*site](ctx, js, pages)
	}
	if err == nil {
		r.Controller, err = controller.New("sites", r.sites, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				return w.reconcile(ctx, r, req)
			}), controller.Owns(r.pages), controller.WithResyncInterval(time.Second),
			controller.WithWorkers(4), controller.WithBackoff(5*time.Millisecond, 50*time.Millisecond),
			controller.WithLeaseTiming(controller.LeaseTiming{
				Duration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 250 * time.Millisecond,
			}))
	}
	if err != nil {
		closed()
	}
	return r, closed, err
}

func (w *world) reconcile(ctx context.Context, r *replica, req controller.Request) (controller.Result, error) {
	w.mu.Lock()
	w.calls = append(w.calls, req)
	w.mu.Unlock()
	obj, err := r.sites.Lister().Get(req.Key)
	if err != nil {
		return controller.Result{}, nil // the cascade deletes the page
	}
	page := &site{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}
	_, err = controller.CreateOrUpdate(ctx, r.pages, page, func(page *site) error {
		page.Spec.Title = obj.Spec.Title
		return nil
	})
	return controller.Result{}, err
}

// watchLeaders looks all the time how many replicas lead.
func (w *world) watchLeaders() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	replicas := w.replicas
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if bothLead(replicas[0], replicas[1]) {
				w.two.Store(true)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
}

// bothLead reports whether two replicas lead at once: the first leads before and after the second does, in one term.
func bothLead(first, second *replica) bool {
	before := first.Stats()
	if !before.Leading || !second.Stats().Leading {
		return false
	}
	after := first.Stats()
	return after.Leading && after.Terms == before.Terms
}

// leading counts the replicas that lead, which must never be more than one.
func (w *world) leading() (n int, leader *replica) {
	for _, r := range w.replicas {
		if r.Stats().Leading {
			n, leader = n+1, r
		}
	}
	for i, r := range w.replicas {
		for _, other := range w.replicas[i+1:] {
			if bothLead(r, other) {
				w.two.Store(true)
			}
		}
	}
	return n, leader
}

// settle waits until all that was written before is dealt with: a site that is made now is reconciled, and two sweeps
// have begun and ended since.
func (w *world) settle() {
	w.t.Helper()
	w.settled++
	name := fmt.Sprintf("barrier%d", w.settled)
	w.put("$KV.sites.ns3."+name, `{}`)
	natstest.Eventually(w.t, "a new site is reconciled", func() bool {
		w.leading()
		return len(w.keys("pages", "ns3."+name)) == 1
	})
	before := w.sweeps()
	natstest.Eventually(w.t, "two sweeps have ended", func() bool { return w.sweeps() >= before+2 })
}

func (w *world) sweeps() (n uint64) {
	w.leading()
	for _, r := range w.replicas {
		n += r.Stats().Sweeps
	}
	return n
}

// keys are the keys of a bucket that have a value, with their revisions.
func (w *world) keys(bucket, prefix string) map[string]uint64 {
	w.t.Helper()
	kv, err := w.admin.KeyValue(w.t.Context(), bucket)
	must(w.t, err)
	watcher, err := kv.WatchAll(w.t.Context(), jetstream.IgnoreDeletes(), jetstream.MetaOnly())
	must(w.t, err)
	defer func() { _ = watcher.Stop() }()
	keys := map[string]uint64{}
	for entry := range watcher.Updates() {
		if entry == nil {
			return keys
		}
		if strings.HasPrefix(entry.Key(), prefix) {
			keys[entry.Key()] = entry.Revision()
		}
	}
	w.t.Fatal("the watch has ended")
	return nil
}

// value reads a key.
func (w *world) value(bucket, key string) string {
	w.t.Helper()
	kv, err := w.admin.KeyValue(w.t.Context(), bucket)
	must(w.t, err)
	entry, err := kv.Get(w.t.Context(), key)
	if err != nil {
		return ""
	}
	return string(entry.Value())
}
