package documents

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server with the buckets sites, whose keys have namespaces, and sites-status.
type world struct {
	*testing.T
	srv        *natstest.Server
	js         jetstream.JetStream
	docs, recs jetstream.KeyValue
	kind       *kinds.Kind
	reader     *Reader
}

func inWorld(t *testing.T, test func(w *world)) {
	natstest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func newWorld(t *testing.T, opts ...natstest.Option) *world {
	w := &world{T: t, srv: natstest.Start(t, opts...), kind: kinds.Plain{Bucket: "sites", Namespaced: true}.Kind()}
	var user []nats.Option
	if len(opts) > 0 {
		user = append(user, nats.UserInfo("admin", "x"))
	}
	_, w.js = natstest.Connect(t, w.srv.URL(), user...)
	w.docs, w.recs = w.bucket("sites"), w.bucket("sites-status")
	w.reader = New(w.js, w.kind, 5*time.Second)
	return w
}

func (w *world) bucket(name string) jetstream.KeyValue {
	kv, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: name, Storage: jetstream.MemoryStorage})
	w.must(err)
	return kv
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) put(kv jetstream.KeyValue, key, value string) {
	w.Helper()
	_, err := kv.PutString(w.Context(), key, value)
	w.must(err)
}

// listed is what a list has, in short.
func (w *world) listed(r *Reader, q Query) string {
	w.Helper()
	var all []string
	for d, err := range r.List(w.Context(), q) {
		w.must(err)
		all = append(all, fmt.Sprintf("%s %d %s %s", d.Key, d.Revision, d.Value, d.Record))
	}
	return strings.Join(all, "\n")
}

func (w *world) wants(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAListHasWhatIsThereWithItsRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.wants(w.listed(w.reader, Query{}), "") // an empty bucket
		w.put(w.docs, "shop.a", "1")
		w.put(w.docs, "lab.a.b", "2")
		w.put(w.docs, "shop.gone", "3")
		w.put(w.docs, "_nagi.lease", "4")
		w.put(w.docs, "single", "5")
		w.put(w.docs, "shop/a", "6")
		w.must(w.docs.Delete(w.Context(), "shop.gone"))
		w.put(w.recs, "shop.a", "r")
		w.put(w.recs, "shop.gone", "owed")
		w.wants(w.listed(w.reader, Query{}), "shop/a 1 1 r\nlab/a.b 2 2 \nsingle 5 5 \n\"shop/a\" 6 6 ")
		w.wants(w.listed(w.reader, Query{Namespace: "shop"}), "shop/a 1 1 r")
		w.wants(w.listed(w.reader, Query{Namespace: "shop", KeysOnly: true}), "shop/a 1  ")
		d, err := w.reader.Get(w.Context(), "shop/gone")
		if !apierrors.IsNotFound(err) || string(d.Record) != "owed" {
			t.Errorf("a document that is gone: %v, record %q", err, d.Record)
		}
		missing := New(w.js, kinds.Plain{Bucket: "nosuch"}.Kind(), time.Second)
		for _, err := range missing.List(w.Context(), Query{}) {
			if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `there is no bucket "nosuch"`) {
				t.Errorf("a bucket that there is not: %v", err)
			}
		}
	})
}

// TestAListHasEachKeyOnceWhileOthersWrite: each key exists throughout.
func TestAListHasEachKeyOnceWhileOthersWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 1500
		for i := range keys {
			w.put(w.docs, fmt.Sprintf("shop.k%d", i), "x")
		}
		for range 5 {
			ctx, cancel := context.WithCancel(w.Context())
			var writers sync.WaitGroup
			for writer := range 3 {
				writers.Go(func() {
					for i := writer; ctx.Err() == nil; i += 7 {
						_, _ = w.docs.PutString(ctx, fmt.Sprintf("shop.k%d", i%keys), "y")
					}
				})
			}
			seen := map[string]int{}
			for d, err := range w.reader.List(w.Context(), Query{WithoutRecords: true}) {
				w.must(err)
				seen[d.Key]++
			}
			cancel()
			writers.Wait()
			twice := 0
			for _, n := range seen {
				if n > 1 {
					twice++
				}
			}
			if len(seen) != keys || twice > 0 {
				t.Fatalf("%d keys of %d, and %d more than once", len(seen), keys, twice)
			}
		}
	})
}

func TestAListGoesOnWhereItWasWhenItsConsumerIsDropped(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 2000
		for i := range keys {
			w.put(w.docs, fmt.Sprintf("shop.k%d", i), "x")
		}
		n := 0
		for _, err := range w.reader.List(w.Context(), Query{WithoutRecords: true}) {
			w.must(err)
			if n++; n == 300 {
				time.Sleep(2 * pullExpires) // the output is held up
			}
		}
		if n != keys {
			t.Errorf("%d of %d", n, keys)
		}
	})
}

// TestAListFindsEachRecordInWhateverOrder: those of the first documents come last, some documents have none, and some
// records have no document.
func TestAListFindsEachRecordInWhateverOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys = 3000
		large := strings.Repeat("x", 10_000)
		for i := range keys {
			w.put(w.docs, fmt.Sprintf("shop.k%d", i), "x")
		}
		for i := range keys {
			if at := (i + keys/2) % keys; at%10 > 0 {
				w.put(w.recs, fmt.Sprintf("shop.k%d", at), fmt.Sprintf("%d%s", at, large))
			}
			if i%100 == 0 {
				w.put(w.recs, fmt.Sprintf("shop.gone%d", i), large)
			}
		}
		n := 0
		for d, err := range w.reader.List(w.Context(), Query{}) {
			w.must(err)
			want := ""
			if n%10 > 0 {
				want = fmt.Sprintf("%d%s", n, large)
			}
			if d.Key != fmt.Sprintf("shop/k%d", n) || string(d.Record) != want {
				t.Fatalf("number %d is %s with a record of %d bytes, want %d", n, d.Key, len(d.Record), len(want))
			}
			n++
		}
		if n != keys {
			t.Errorf("%d of %d", n, keys)
		}
	})
}

func TestAListHoldsNoDocuments(t *testing.T) {
	inWorld(t, func(w *world) {
		const keys, size = 8000, 2000
		value := strings.Repeat("x", size)
		for i := range keys {
			_, err := w.js.PublishAsync(fmt.Sprintf("$KV.sites.shop.k%d", i), []byte(value))
			w.must(err)
			if i%200 == 0 {
				<-w.js.PublishAsyncComplete()
			}
		}
		<-w.js.PublishAsyncComplete()
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		var first, last int64
		n := 0
		for _, err := range w.reader.List(w.Context(), Query{WithoutRecords: true}) {
			w.must(err)
			switch n++; n {
			case 2000:
				first = heap()
			case 6000:
				last = heap()
			}
		}
		if held := last - first; n != keys || held > 4000*size/8 {
			t.Errorf("%d of %d keys; 4000 documents of %d bytes took %d", n, keys, size, held)
		}
	})
}

func TestAReaderNeedsTheRightsOfAReader(t *testing.T) {
	cfg := entity.Config{Kind: "sites", Bucket: "sites", Namespaced: true}
	reader, err := entity.Permissions(cfg, entity.RoleReader)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := entity.Permissions(cfg, entity.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	users := fmt.Sprintf("authorization { users: [ {user: admin, password: x}, {user: reader, password: x, %s}, "+
		"{user: operator, password: x, %s} ] }", reader.NATS(), operator.NATS())
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithConfigText(users))
		w.put(w.docs, "shop.a", "1")
		w.put(w.recs, "shop.a", "r")
		as := func(user string) *Reader {
			var denied error
			nc, js := natstest.Connect(t, w.srv.URL(), nats.UserInfo(user, "x"), nats.CustomInboxPrefix("_INBOX_"+user),
				nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied = errors.Join(denied, err) }))
			t.Cleanup(func() {
				nc.Close()
				if user == "reader" && denied != nil {
					t.Errorf("the reader was denied: %v", denied)
				}
			})
			return New(js, w.kind, 5*time.Second)
		}
		w.wants(w.listed(as("reader"), Query{}), "shop/a 1 1 r")
		w.wants(w.changes(as("reader"), Query{}, func() { w.put(w.docs, "shop.b", "2") }), " shop/a 1 1 r\nwritten shop/b 2 2 ")
		for _, err := range as("operator").List(w.Context(), Query{}) {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "$JS.API.CONSUMER.CREATE.KV_sites.*.$KV.sites.>: grant") {
				t.Errorf("who may make no consumer: %v", err)
			}
		}
	})
}

func TestAMirrorIsListedUnderTheSubjectsOfItsOrigin(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(w.docs, "shop.a", "1")
		_, err := w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "KV_copy", Storage: jetstream.MemoryStorage,
			Mirror: &jetstream.StreamSource{Name: "KV_sites"}, MaxMsgsPerSubject: 1})
		w.must(err)
		time.Sleep(time.Second)
		kind := kinds.Plain{Bucket: "copy", StatusBucket: entity.NoStatusBucket, Namespaced: true}.Kind()
		w.wants(w.listed(New(w.js, kind, time.Second), Query{}), "shop/a 1 1 ")
	})
}

func TestAWatchHasChangesOfDocumentsAndOfRecords(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(w.docs, "shop.a", "1")
		w.put(w.docs, "lab.x", "2")
		w.wants(w.changes(w.reader, Query{Namespace: "shop"}, func() {
			w.put(w.docs, "shop.b", "3")
			synctest.Wait()
			w.put(w.recs, "shop.b", "r")
			w.put(w.recs, "lab.x", "r")
			w.put(w.recs, "_nagi.lease", "r")
			synctest.Wait()
			w.must(w.docs.Delete(w.Context(), "shop.b"))
			synctest.Wait()
			time.Sleep(3 * pullExpires)
			w.must(w.recs.Delete(w.Context(), "shop.b"))
		}), ` shop/a 1 1 
written shop/b 3 3 
recorded shop/b 3 3 r
deleted shop/b 0  r
torn down shop/b 0  `)
	})
}

// changes is what a watch tells, in short.
func (w *world) changes(r *Reader, q Query, change func()) string {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	var done sync.WaitGroup
	var all []string
	listed := make(chan struct{})
	done.Go(func() {
		for c, err := range r.Watch(ctx, q, func() { close(listed) }) {
			if err != nil {
				if ctx.Err() == nil {
					w.Error(err)
				}
				return
			}
			all = append(all, fmt.Sprintf("%s %s %d %s %s", c.What, c.Key, c.Revision, c.Value, c.Record))
		}
	})
	<-listed
	change()
	time.Sleep(time.Second)
	cancel()
	done.Wait()
	return strings.Join(all, "\n")
}
