package natsinformer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// reports records the calls of OnInvalid and OnResolved.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) configure(cfg Config) Config {
	note := func(s string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, s)
	}
	cfg.OnInvalid = func(e Entry, err error) { note(fmt.Sprintf("invalid %s@%d: %v", e.Key, e.Revision, err)) }
	cfg.OnResolved = func(key string) { note("resolved " + key) }
	return cfg
}

func (r *reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, "; ")
}

func (r *reports) are(t *testing.T, want string) {
	t.Helper()
	within(t, atOnce, want, func() bool { return r.String() == want })
}

func TestInvalidDocumentSeenFirstIsReportedAndExists(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "bad", -1)
		var told reports
		r := start(t, js, told.configure(Config{Bucket: "b"})).synced(t)
		told.are(t, "invalid bad@1: n must not be negative") // before HasSynced
		if r.get("bad") != nil || !r.Exists("bad") || r.Exists("none") {
			t.Error("an invalid key exists, and is not in the store")
		}
		if !r.IsInvalid("bad") || r.IsInvalid("none") {
			t.Error("IsInvalid")
		}
		if err := r.Invalid()["bad"]; err == nil || r.Status().Invalid != 1 {
			t.Errorf("Invalid: %v, %+v", r.Invalid(), r.Status())
		}
		// Another invalid revision is reported, too.
		revision := put(t, kv, "bad", -2)
		must(t, r.WaitCursor(t.Context(), revision))
		told.are(t, "invalid bad@1: n must not be negative; invalid bad@2: n must not be negative")
		// It is mended.
		r.follows(t, kv, "bad", 3, atOnce)
		if e := r.seen.last("bad"); e.kind != "add" {
			t.Errorf("%+v", e)
		}
		told.are(t, "invalid bad@1: n must not be negative; invalid bad@2: n must not be negative; resolved bad")
		if len(r.Invalid()) != 0 || r.Status().Invalid != 0 {
			t.Errorf("still invalid: %v, %+v", r.Invalid(), r.Status())
		}
	})
}

func TestInvalidUpdateKeepsTheLastGoodVersion(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		var told reports
		r := start(t, js, told.configure(Config{Bucket: "b"})).synced(t)
		revision := put(t, kv, "k", -1)
		must(t, r.WaitCursor(t.Context(), revision))
		told.are(t, "invalid k@2: n must not be negative")
		if !r.has("k", 1) || !r.Exists("k") {
			t.Error("the last good version is gone")
		}
		// The stream is listed again, because the only anchor is gone.
		must(t, server.Restart())
		answersNow(t, js, "b")
		put(t, kv, "k", -3)
		r.follows(t, kv, "other", 1, atOnce)
		if !r.has("k", 1) {
			t.Error("the last good version is gone after a list")
		}
		must(t, kv.Delete(t.Context(), "k"))
		within(t, time.Millisecond, "deleted", func() bool { return r.seen.last("k").kind == "delete" })
		if e := r.seen.last("k"); e.n != 1 || !e.deletion.Evidenced {
			t.Errorf("%+v", e)
		}
		if !strings.HasSuffix(told.String(), "resolved k") || r.Exists("k") {
			t.Errorf("it still exists: %v; %v", r.Exists("k"), &told)
		}
	})
}

func TestInvalidDocumentDeletedWasNeverAdded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "bad", -1)
		var told reports
		r := start(t, js, told.configure(Config{Bucket: "b"})).synced(t)
		must(t, kv.Delete(t.Context(), "bad"))
		must(t, r.WaitCursor(t.Context(), 2))
		told.are(t, "invalid bad@1: n must not be negative; resolved bad")
		if r.Exists("bad") || len(r.seen.all()) != 0 {
			t.Errorf("exists %v, events %v", r.Exists("bad"), r.seen.all())
		}
	})
}

func TestPanickingDecoderInvalidatesOneKey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "bomb", 1)
		put(t, kv, "k", 1)
		r := start(t, js, Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
			if e.Key == "bomb" {
				panic("boom")
			}
			return decodeThing(e)
		}}).synced(t)
		if err := r.Invalid()["bomb"]; err == nil || !strings.Contains(err.Error(), "boom") || !r.has("k", 1) {
			t.Errorf("invalid: %v", r.Invalid())
		}
	})
}

// TestInvalidDocumentsAreNotKept: they may be large, and many.
func TestInvalidDocumentsAreNotKept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		junk := func(key string) {
			_, err := js.PublishMsg(t.Context(), &nats.Msg{
				Subject: "$KV.b." + key, Data: []byte("junk"), Header: nats.Header{"A": {"b"}},
			})
			must(t, err)
		}
		junk("listed")
		var mu sync.Mutex
		reported := map[string]string{}
		r := start(t, js, Config{Bucket: "b", OnInvalid: func(e Entry, _ error) {
			mu.Lock()
			defer mu.Unlock()
			reported[e.Key] = string(e.Value) + e.Header.Get("A")
		}}).synced(t)
		junk("watched")
		r.follows(t, kv, "k", 1, atOnce)
		mu.Lock()
		defer mu.Unlock()
		if reported["listed"] != "junkb" || reported["watched"] != "junkb" {
			t.Errorf("reported %v", reported)
		}
		src := r.Informer.(*informer).src
		src.mu.RLock()
		defer src.mu.RUnlock()
		for _, key := range []string{"listed", "watched"} {
			if bad := src.keys.invalid[key]; bad.err == nil || bad.entry.Value != nil || bad.entry.Header != nil {
				t.Errorf("%s: %+v is kept", key, bad.entry)
			}
		}
	})
}

func TestExistsTakesBothFormsOfAKey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "ns.good", 1)
		put(t, kv, "ns.bad", -1)
		put(t, kv, "ns/junk", -1)
		r := start(t, js, Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
			o, err := decodeThing(e)
			if err != nil {
				return nil, err
			}
			o.(*thing).Namespace, o.(*thing).Name, _ = strings.Cut(e.Key, ".")
			return o, nil
		}}).synced(t)
		for key, want := range map[string]bool{
			"ns.good": true, "ns/good": true, "ns.bad": true, "ns/bad": true,
			"ns/none": false, "good": false, "ns/junk": false,
		} {
			if r.Exists(key) != want {
				t.Errorf("Exists(%s) is %v", key, !want)
			}
		}
	})
}

func TestKeysAndValuesAtTheirLimits(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		long := strings.Repeat("k", 2000)
		keys := []string{"a", "A-Z_0=9/x", "a.b.c.d.e.f.g.h.i.j", "=", "-", "_", long}
		for i, key := range keys {
			put(t, kv, key, i)
		}
		largest := int(js.Conn().MaxPayload())
		value := bytes.Repeat([]byte(" "), largest)
		copy(value, doc(77))
		const large = pullBytes>>20 + 1 // more than one pull takes at once
		for i := range large {
			_, err := kv.Put(t.Context(), fmt.Sprint("large", i), value)
			must(t, err)
		}
		r := start(t, js, Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
			e.Value = bytes.TrimRight(e.Value, " \n")
			return decodeThing(e)
		}}).synced(t)
		for i, key := range keys {
			if !r.has(key, i) {
				t.Errorf("key %.40q is not in the store", key)
			}
		}
		for i := range large {
			if !r.has(fmt.Sprint("large", i), 77) {
				t.Errorf("large%d is not in the store", i)
			}
		}
		_, err := kv.Put(context.Background(), "large0", append(value[:largest-1], '\n'))
		must(t, err)
		within(t, atOnce, "updated", func() bool { return r.seen.last("large0").kind == "update" })
	})
}
