package natsinformer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// prompt is promise 2's limit on recovery.
const prompt = 2 * time.Second

// atOnce is the limit for what takes no time.
const atOnce = time.Duration(0)

// subtest runs a subtest in virtual time.
func subtest(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { natstest.Test(t, f) })
}

// within fails unless the condition holds when the limit has passed, or before.
func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	time.Sleep(time.Nanosecond) // ends when nothing works any more
	for began := time.Now(); !holds(); {
		waited := time.Since(began)
		if waited >= limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(min(max(waited/20, time.Millisecond), limit-waited))
	}
}

// thing is the object that the tests keep in buckets.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	N                 int    `json:"n"`
	Pad               string `json:"pad,omitempty"`
}

func (t *thing) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func decodeThing(e Entry) (runtime.Object, error) {
	t := &thing{}
	if err := json.Unmarshal(e.Value, t); err != nil {
		return nil, err
	}
	if t.N < 0 {
		return nil, errors.New("n must not be negative")
	}
	t.Name = e.Key
	return t, nil
}

func doc(n int) []byte { return []byte(`{"n":` + strconv.Itoa(n) + `}`) }

// connect returns a JetStream context on a connection that reconnects quickly and for ever.
func connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, url, opts...)
	return js
}

func bucket(t testing.TB, js jetstream.JetStream, cfg jetstream.KeyValueConfig) jetstream.KeyValue {
	t.Helper()
	time.Sleep(time.Nanosecond) // later than the one before: a stream is known again by its time of creation
	kv, err := js.CreateKeyValue(t.Context(), cfg)
	must(t, err)
	return kv
}

func put(t testing.TB, kv jetstream.KeyValue, key string, n int) uint64 {
	t.Helper()
	revision, err := kv.Put(context.Background(), key, doc(n))
	must(t, err)
	return revision
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seen records the calls of an informer's handler.
type seen struct {
	mu     sync.Mutex
	events []seenEvent
}

type seenEvent struct {
	kind     string // add, update, delete
	key      string
	n        int
	revision uint64
	deletion Deletion
	object   *thing
}

func (s *seen) add(kind string, obj any) {
	e := seenEvent{kind: kind, deletion: DeleteOf(obj)}
	if t, ok := obj.(*thing); ok {
		e.key, e.n, e.object = t.Name, t.N, t
		e.revision, _ = strconv.ParseUint(t.ResourceVersion, 10, 64)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *seen) OnAdd(obj any, _ bool) { s.add("add", obj) }
func (s *seen) OnUpdate(_, obj any)   { s.add("update", obj) }
func (s *seen) OnDelete(obj any)      { s.add("delete", obj) }
func (s *seen) all() []seenEvent      { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.events) }
func (s *seen) of(key string) []seenEvent {
	return slices.DeleteFunc(s.all(), func(e seenEvent) bool { return e.key != key })
}

func (s *seen) last(key string) seenEvent {
	events := s.of(key)
	if len(events) == 0 {
		return seenEvent{}
	}
	return events[len(events)-1]
}

// running is an informer under test.
type running struct {
	Informer
	seen *seen
	stop func() // waits until it has ended
}

// start runs an informer until the test ends.
func start(t testing.TB, js jetstream.JetStream, cfg Config) *running {
	t.Helper()
	return startWith(t, js, cfg, func(Informer) {})
}

// startWith is start, with what is to be set before.
func startWith(t testing.TB, js jetstream.JetStream, cfg Config, set func(Informer)) *running {
	t.Helper()
	if cfg.Decode == nil {
		cfg.Decode = decodeThing
	}
	informer, err := New(js, cfg)
	must(t, err)
	r := &running{Informer: informer, seen: &seen{}}
	_, err = informer.AddEventHandler(r.seen)
	must(t, err)
	set(informer)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

// synced waits until the informer has synced.
func (r *running) synced(t testing.TB) *running {
	t.Helper()
	select {
	case <-r.HasSyncedChecker().Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("not synced: %v", r.Status().Err)
	}
	return r
}

// get returns the object in the store, nil if there is none.
func (r *running) get(key string) *thing {
	obj, exists, _ := r.GetStore().GetByKey(key)
	if !exists {
		return nil
	}
	return obj.(*thing)
}

func (r *running) has(key string, n int) bool {
	o := r.get(key)
	return o != nil && o.N == n
}

// follows puts a change and waits until the handler got it.
func (r *running) follows(t testing.TB, kv jetstream.KeyValue, key string, n int, limit time.Duration) {
	t.Helper()
	put(t, kv, key, n)
	within(t, limit, fmt.Sprintf("%s=%d at the handler", key, n), func() bool { return r.seen.last(key).n == n })
}

// reaches waits until the cursor has reached a revision.
func (r *running) reaches(t testing.TB, revision uint64, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Nanosecond)
	defer cancel()
	must(t, r.WaitCursor(ctx, revision))
}

// contents returns the revision of each key on the server, read without the code under test.
func contents(t testing.TB, kv jetstream.KeyValue) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	lister, err := kv.ListKeys(ctx)
	must(t, err)
	found := map[string]uint64{}
	for key := range lister.Keys() {
		e, err := kv.Get(ctx, key)
		if err == nil {
			found[key] = e.Revision()
		}
	}
	return found
}

// converges waits until the store equals the server's key set, at the same revisions.
func (r *running) converges(t testing.TB, kv jetstream.KeyValue, limit time.Duration) {
	t.Helper()
	var want, got map[string]uint64
	defer func() {
		if t.Failed() {
			t.Logf("server %v, store %v", sample(want), sample(got))
		}
	}()
	within(t, limit, "the store has converged", func() bool {
		want, got = contents(t, kv), map[string]uint64{} // both again: a replica may be behind
		for _, obj := range r.GetStore().List() {
			o := obj.(*thing)
			got[o.Name], _ = strconv.ParseUint(o.ResourceVersion, 10, 64)
		}
		return maps.Equal(want, got)
	})
}

// versioned checks that the store's resourceVersion is one that apimachinery compares: zero is that of a stream that
// never had a message.
func (r *running) versioned(t testing.TB) {
	t.Helper()
	for _, version := range []string{r.LastSyncResourceVersion(), r.GetStore().LastStoreSyncResourceVersion()} {
		if _, err := resourceversion.CompareResourceVersion(version, "1"); err != nil && version != "0" {
			t.Errorf("the store is at %q: %v", version, err)
		}
	}
}

func sample(m map[string]uint64) string {
	keys := slices.Sorted(maps.Keys(m))
	s := fmt.Sprintf("%d keys", len(m))
	for _, key := range keys[:min(8, len(keys))] {
		s += fmt.Sprintf(" %s@%d", key, m[key])
	}
	return s
}

// inOrder checks that the revisions of each key only went up.
func (s *seen) inOrder(t testing.TB) {
	t.Helper()
	at := map[string]uint64{}
	for _, e := range s.all() {
		if e.revision < at[e.key] {
			t.Errorf("%s went from revision %d back to %d", e.key, at[e.key], e.revision)
		}
		at[e.key] = e.revision
	}
}

// consumers counts the consumers on the bucket's stream.
func consumers(t testing.TB, js jetstream.JetStream, bucket string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return -1
	}
	return stream.CachedInfo().State.Consumers
}

// leaveNothing stops informers, which take their consumers with them.
func leaveNothing(t testing.TB, js jetstream.JetStream, bucket string, all ...*running) {
	t.Helper()
	for _, r := range all {
		r.stop()
	}
	if n := consumers(t, js, bucket); n != 0 {
		t.Fatalf("%d consumers are left", n)
	}
}

var _ cache.ResourceEventHandler = (*seen)(nil)

// marker is a delete that the server drops after a second, in a bucket with limit markers.
func marker(key string) *nats.Msg {
	return &nats.Msg{Subject: "$KV.b." + key, Header: nats.Header{operationHeader: {"DEL"}, ttlHeader: {"1s"}}}
}
