package natsinformer

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestRecreatedStream: when a stream is deleted and made again, the handler gets each known key as deleted, and each
// key of the new stream as added.
func TestRecreatedStream(t *testing.T) {
	for name, keys := range map[string]int{"fewer": 3, "more": 50, "empty": 0} {
		subtest(t, name, func(t *testing.T) {
			server := natstest.Start(t)
			js := connect(t, server.URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 10 {
				put(t, kv, fmt.Sprint("k", i), i+1)
			}
			r := start(t, js, Config{Bucket: "b"}).synced(t)
			r.follows(t, kv, "k0", 100, atOnce)
			must(t, js.DeleteKeyValue(t.Context(), "b"))
			kv = bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range keys {
				put(t, kv, fmt.Sprint("k", i), 1000+i)
			}
			r.converges(t, kv, prompt)
			for i := range 10 {
				key := fmt.Sprint("k", i)
				within(t, prompt, key+" was deleted", func() bool {
					events := r.seen.of(key)
					return len(events) > 1 &&
						(events[len(events)-1].kind == "delete" || events[len(events)-2].kind == "delete")
				})
				events := r.seen.of(key)
				for j, e := range events {
					if e.kind != "delete" {
						continue
					}
					if e.deletion != (Deletion{false, DeleteVanished}) || e.n != events[j-1].n {
						t.Errorf("%s: %+v after %+v", key, e, events[j-1])
					}
					if j+1 < len(events) && events[j+1].kind != "add" {
						t.Errorf("%s: %s followed the delete", key, events[j+1].kind)
					}
				}
			}
			if n := r.Status().StreamChanges; n != 1 {
				t.Errorf("StreamChanges is %d", n)
			}
			r.versioned(t)
			r.follows(t, kv, "later", 7, prompt)
			must(t, r.WaitCursor(t.Context(), r.seen.last("later").revision))
			if got := r.Cursor(); got > r.seen.last("later").revision {
				t.Errorf("the cursor is %d, which is of the old stream", got)
			}
		})
	}
}

// restorable is a server whose store can be put back to an earlier state, as a restore from a backup does, which keeps
// the stream's time of creation. The informer's connection can be kept away from it meanwhile.
type restorable struct {
	*natstest.Server
	proxy  *natstest.Proxy
	backup string
}

func startRestorable(t *testing.T) restorable {
	t.Helper()
	server := natstest.Start(t)
	return restorable{server, natstest.StartProxy(t, server.URL()), t.TempDir()}
}

func (r restorable) save(t *testing.T) {
	t.Helper()
	r.Stop()
	must(t, os.CopyFS(r.backup, os.DirFS(r.StoreDir())))
	must(t, r.Start())
}

// kill stops the server as a killed one: its store is as it was a moment before.
func (r restorable) kill(t *testing.T) {
	t.Helper()
	must(t, os.CopyFS(r.backup, os.DirFS(r.StoreDir())))
	r.restore(t)
}

func (r restorable) restore(t *testing.T) {
	t.Helper()
	r.Stop()
	must(t, os.RemoveAll(r.StoreDir()))
	must(t, os.CopyFS(r.StoreDir(), os.DirFS(r.backup)))
	must(t, r.Start())
}

func TestRestoredStream(t *testing.T) {
	for name, test := range map[string]struct {
		writes int
		last   string // key written at last, at the cursor's own sequence
	}{
		"at lower sequences":                   {},
		"and written past the cursor":          {writes: 40},
		"and written to exactly the cursor":    {writes: 20},
		"and the same key written there":       {writes: 19, last: "k19"},
		"and written to just below the cursor": {writes: 19},
	} {
		subtest(t, name, func(t *testing.T) {
			server := startRestorable(t)
			admin, js := connect(t, server.URL()), connect(t, server.proxy.URL())
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 20 {
				put(t, kv, fmt.Sprint("k", i), i+1)
			}
			server.save(t)
			answersNow(t, admin, "b")
			r := start(t, js, Config{Bucket: "b"}).synced(t)
			for i := range 19 { // revert, and keys that the backup does not have
				put(t, kv, fmt.Sprint([]string{"k", "new"}[i%2], i), 1000+i)
			}
			r.follows(t, kv, "k19", 5000, atOnce)
			server.proxy.Refuse()
			server.restore(t)
			answersNow(t, admin, "b")
			for i := range test.writes {
				put(t, kv, fmt.Sprint([]string{"k", "other"}[i%2], i), 2000+i)
			}
			if test.last != "" {
				put(t, kv, test.last, 6000)
			}
			server.proxy.Resume()
			answersNow(t, js, "b")
			r.converges(t, kv, prompt)
			within(t, prompt, "a key that vanished is deleted", func() bool {
				return r.seen.last("new1").kind == "delete"
			})
			if e := r.seen.last("new1"); e.deletion != (Deletion{false, DeleteVanished}) || e.n != 1001 {
				t.Errorf("new1: %+v", e)
			}
			r.versioned(t)
			r.follows(t, kv, "k3", 9999, prompt)
		})
	}
}

// TestRestoredStreamWrittenOverIsNoticed: the stream lost its last messages, then other keys were written at their
// sequences, and then the lost keys again. So only the other keys are at an unknown revision below the cursor, and the
// informer must look for them.
func TestRestoredStreamWrittenOverIsNoticed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := startRestorable(t)
		admin, js := connect(t, server.URL()), connect(t, server.proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 20 {
			put(t, kv, fmt.Sprint("k", i), i+1)
		}
		server.save(t) // at 20
		answersNow(t, admin, "b")
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		put(t, kv, "k1", 101)
		put(t, kv, "k2", 102)
		r.follows(t, kv, "k3", 103, atOnce) // the cursor is at 23
		server.proxy.Refuse()
		server.restore(t)
		answersNow(t, admin, "b")
		for i := range 3 { // 21 to 23
			put(t, kv, fmt.Sprint("k", 10+i), 2010+i)
		}
		for i := range 3 {
			put(t, kv, fmt.Sprint("k", 1+i), 3001+i)
		}
		server.proxy.Resume()
		answersNow(t, js, "b")
		r.converges(t, kv, prompt)
		r.versioned(t)
		if n := r.Status().StreamChanges; n != 1 {
			t.Errorf("StreamChanges is %d", n)
		}
	})
}

// TestHotKeysDoNotMakeAReconnectAList: keys that were not written again while the informer was away prove that the
// stream is the same, however often others were written.
func TestHotKeysDoNotMakeAReconnectAList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 300 {
			put(t, kv, fmt.Sprint("k", i), 1)
		}
		r := start(t, js, Config{Bucket: "b", CompareInterval: 24 * time.Hour}).synced(t)
		for round := range 3 {
			hot := []int{1, 5, 50}[round]
			for i := range 200 {
				put(t, kv, fmt.Sprint("k", i%hot), 1000*round+i)
			}
			r.follows(t, kv, "k0", 1000*round+500, atOnce)
			proxy.Refuse()
			within(t, atOnce, "disconnected", func() bool { return !js.Conn().IsConnected() })
			for i := range hot {
				put(t, kv, fmt.Sprint("k", i), 1000*round+600+i)
			}
			proxy.Resume()
			answersNow(t, js, "b")
			r.follows(t, kv, "k0", 1000*round+700, prompt)
		}
		r.converges(t, kv, prompt)
		if lists := r.Status().Lists; lists != 1 {
			t.Errorf("%d lists", lists)
		}
	})
}

// TestRelistingUntilTheStoreReflectsAnotherStream: code that acts on the store must be able to know that the store is
// of a stream that is gone.
func TestRelistingUntilTheStoreReflectsAnotherStream(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "old", 1)
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		r := start(t, connect(t, proxy.URL()), Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
			if e.Key == "anew" {
				<-gate
			}
			return decodeThing(e)
		}}).synced(t)
		if r.Status().Relisting {
			t.Error("relisting, of a stream that is the same")
		}
		proxy.Refuse() // or it might list the new stream before there is a key that holds up the list
		must(t, js.DeleteKeyValue(t.Context(), "b"))
		kv = bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "anew", 1)
		proxy.Resume()
		within(t, prompt, "noticed", func() bool { return r.Status().Relisting })
		if r.get("old") == nil || r.get("anew") != nil {
			t.Error("the store was changed while the list was read")
		}
		open()
		within(t, prompt, "done", func() bool { return !r.Status().Relisting })
		if r.get("old") != nil || r.get("anew") == nil {
			t.Error("not relisting any more, but the store does not reflect the stream")
		}
	})
}

func TestVanishedKeysAreDeletedWithinTheInterval(t *testing.T) {
	tests := map[string]struct {
		cfg    jetstream.KeyValueConfig
		vanish func(t *testing.T, kv jetstream.KeyValue, js jetstream.JetStream)
	}{
		"subject purge": {jetstream.KeyValueConfig{}, func(t *testing.T, _ jetstream.KeyValue, js jetstream.JetStream) {
			stream, err := js.Stream(t.Context(), "KV_b")
			must(t, err)
			must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.gone.*")))
		}},
		"stream purge": {jetstream.KeyValueConfig{}, func(t *testing.T, kv jetstream.KeyValue, js jetstream.JetStream) {
			stream, err := js.Stream(t.Context(), "KV_b")
			must(t, err)
			must(t, stream.Purge(t.Context()))
			put(t, kv, "stays", 1)
		}},
		"bucket TTL without markers": {jetstream.KeyValueConfig{},
			func(t *testing.T, kv jetstream.KeyValue, js jetstream.JetStream) {
				expire(t, js, time.Second)
				// Not contents: where keys expire before they are delivered, nats.go waits in vain for the last of
				// them.
				natstest.Eventually(t, "expired", func() bool {
					stream, err := js.Stream(t.Context(), "KV_b")
					return err == nil && stream.CachedInfo().State.Msgs == 0
				})
				put(t, kv, "stays", 1)
			}},
	}
	for name, test := range tests {
		subtest(t, name, func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			test.cfg.Bucket = "b"
			kv := bucket(t, js, test.cfg)
			for i := range 20 {
				put(t, kv, fmt.Sprint("gone.", i), i)
			}
			put(t, kv, "stays", 0)
			const interval = 300 * time.Millisecond
			filtered := start(t, js, Config{Bucket: "b", Filter: "gone.*", CompareInterval: interval})
			r := start(t, js, Config{Bucket: "b", CompareInterval: interval}).synced(t)
			filtered.synced(t)
			test.vanish(t, kv, js)
			for name, r := range map[string]*running{"all": r, "filtered": filtered} {
				// It takes several counts, and the pause between them grows with the time that they take: see
				// TestSlowCountsWithAFilterRestTheServer and TestOneSlowCountDelaysNothing.
				natstest.Eventually(t, name+": vanished keys leave the store", func() bool {
					keys := r.GetStore().ListKeys()
					return len(keys) == 0 || len(keys) == 1 && keys[0] == "stays"
				})
				within(t, prompt, name+": and are delivered as deletes", func() bool {
					return r.seen.last("gone.7").kind == "delete"
				})
				want := Deletion{false, DeleteVanished}
				if strings.HasSuffix(t.Name(), "TTL_without_markers") {
					want.Reason = ExpiryMarker // the age limit is the likely reason, and no evidence
				}
				if e := r.seen.last("gone.7"); e.deletion != want || e.n != 7 {
					t.Errorf("%s: %+v", name, e)
				}
			}
		})
	}
}

// expire limits the age of what is in the bucket, from now on, so that it was listed before it goes.
func expire(t *testing.T, js jetstream.JetStream, age time.Duration) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxAge, cfg.Duplicates = age, age // which may not exceed the age
	_, err = js.UpdateStream(t.Context(), cfg)
	must(t, err)
}

// TestAnExpiryIsEvidencedIfSomebodyWantedIt: the marker of the server is the same whatever made the key expire.
func TestAnExpiryIsEvidencedIfSomebodyWantedIt(t *testing.T) {
	for name, test := range map[string]struct {
		ttl      string        // of the document
		age      time.Duration // of the bucket, set while the informer runs
		declared bool
		want     bool
	}{
		"its own time is over":            {ttl: "5900ms", want: true},
		"by age":                          {age: time.Second, want: false},
		"by age, which is declared":       {age: time.Second, declared: true, want: true},
		"by age, before its time":         {ttl: "1h", age: time.Second, want: false},
		"its own time, though it may age": {ttl: "5s", age: time.Hour, want: true},
	} {
		subtest(t, name, func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Hour})
			msg := nats.NewMsg("$KV.b.k")
			msg.Data = []byte(`{"n":7}`)
			if test.ttl != "" {
				msg.Header.Set("Nats-TTL", test.ttl)
			}
			cfg := Config{Bucket: "b", DocumentsExpire: test.declared, CompareInterval: 24 * time.Hour}
			r := start(t, js, cfg).synced(t)
			// Something is left that proves that the stream is the same: a list cannot always tell expiries apart.
			r.follows(t, kv, "still", 1, atOnce)
			_, err := js.PublishMsg(t.Context(), msg)
			must(t, err)
			natstest.Eventually(t, "it is there", func() bool { return r.seen.last("k").n == 7 })
			if test.age != 0 {
				expire(t, js, test.age)
			}
			natstest.Eventually(t, "expired", func() bool { return r.seen.last("k").kind == "delete" })
			if e := r.seen.last("k"); e.deletion != (Deletion{test.want, ExpiryMarker}) || e.n != 7 {
				t.Errorf("%+v", e)
			}
			r.converges(t, kv, atOnce)
		})
	}
}

// TestAListTellsExpiriesApart, too: the key went while nobody watched.
func TestAListTellsExpiriesApart(t *testing.T) {
	second := int64(time.Second)
	value := func(key, ttl string) *item {
		it := &item{key: key, seq: 1, created: second, object: &thing{}}
		if ttl != "" {
			it.header = nats.Header{"Nats-TTL": {ttl}}
		}
		return it
	}
	before, next := newKeys(), newKeys()
	before.put(value("own", "2"), before)
	before.put(value("aged", "4"), before)
	before.put(value("plain", ""), before)
	want := map[string]DeleteReason{"own": ExpiryMarker, "aged": expiredByAge, "plain": expiredByAge}
	for key, reason := range want {
		next.put(&item{key: key, seq: 2, created: 3 * second, reason: expiredByAge}, before)
		if got := next.tombs[key].reason; got != reason {
			t.Errorf("%s: %s, want %s", key, got, reason)
		}
	}
	next = newKeys()
	next.maxAge = time.Hour // somebody may have replaced the document by one without a time
	next.put(&item{key: "own", seq: 3, created: 3 * second, reason: expiredByAge}, before)
	if got := next.tombs["own"].reason; got != expiredByAge {
		t.Errorf("where there is an age limit: %s", got)
	}
}

// TestHistoryDoesNotBringBackOldObjects: when a bucket with history is listed again, its older revisions are read
// first.
func TestHistoryDoesNotBringBackOldObjects(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", History: 5})
		for n := range 3 {
			put(t, kv, "k", n+1)
		}
		put(t, kv, "gone", 1)
		r := start(t, js, Config{Bucket: "b", CompareInterval: 300 * time.Millisecond}).synced(t)
		stream, err := js.Stream(t.Context(), "KV_b")
		must(t, err)
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.gone")))
		natstest.Eventually(t, "listed again", func() bool { return r.get("gone") == nil })
		must(t, kv.Delete(t.Context(), "k"))
		within(t, atOnce, "deleted", func() bool { return r.seen.last("k").kind == "delete" })
		if e := r.seen.last("k"); e.n != 3 {
			t.Errorf("deleted as %d, but it was 3", e.n)
		}
	})
}

func TestDeletesMissedWhileDisconnected(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for _, key := range []string{"marked", "forgotten", "stays"} {
			put(t, kv, key, 7)
		}
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		proxy.Refuse()
		must(t, kv.Delete(t.Context(), "forgotten"))
		must(t, kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
		must(t, kv.Delete(t.Context(), "marked"))
		proxy.Resume()
		answersNow(t, js, "b")
		r.converges(t, kv, prompt)
		within(t, prompt, "both deletes", func() bool {
			return r.seen.last("marked").kind == "delete" && r.seen.last("forgotten").kind == "delete"
		})
		if e := r.seen.last("marked"); e.deletion != (Deletion{true, DeleteMarker}) || e.n != 7 {
			t.Errorf("marked: %+v", e)
		}
		if e := r.seen.last("forgotten"); e.deletion != (Deletion{false, DeleteVanished}) || e.n != 7 {
			t.Errorf("forgotten: %+v", e)
		}
	})
}

// TestMarkersReadInARelistAreEvidence: a marker that is read when the stream is listed again is evidence too.
func TestMarkersReadInARelistAreEvidence(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "marked", 7)
		put(t, kv, "hot", 1)
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		proxy.Refuse()
		must(t, kv.Purge(t.Context(), "marked"))
		put(t, kv, "hot", 2) // now every message that was read is gone, and none proves that the stream is the same
		proxy.Resume()
		answersNow(t, js, "b")
		r.converges(t, kv, prompt)
		within(t, prompt, "deleted", func() bool { return r.seen.last("marked").kind == "delete" })
		if e := r.seen.last("marked"); e.deletion != (Deletion{true, PurgeMarker}) || e.n != 7 {
			t.Errorf("%+v", e)
		}
		if lists := r.Status().Lists; lists != 2 {
			t.Errorf("%d lists", lists)
		}
	})
}

// TestExpiredTombstonesCostNoList: a bucket whose tombstones expire is healthy.
func TestExpiredTombstonesCostNoList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
		r := start(t, js, Config{Bucket: "b", CompareInterval: 200 * time.Millisecond}).synced(t)
		put(t, kv, "stays", 1)
		for i := range 20 {
			key := fmt.Sprint("k", i)
			put(t, kv, key, i)
			_, err := js.PublishMsg(t.Context(), marker(key))
			must(t, err)
		}
		stream, err := js.Stream(t.Context(), "KV_b")
		must(t, err)
		natstest.Eventually(t, "tombstones expire", func() bool {
			info, err := stream.Info(t.Context())
			return err == nil && info.State.NumSubjects == 1
		})
		compares := r.Status().Compares
		natstest.Eventually(t, "compared", func() bool { return r.Status().Compares >= compares+2 })
		if lists := r.Status().Lists; lists != 1 {
			t.Errorf("%d lists", lists)
		}
	})
}

// TestWaitKeyReadsOwnWrites: a writer that waits for its own write reads it or a later one, while others write the same
// keys.
func TestWaitKeyReadsOwnWrites(t *testing.T) {
	for _, filter := range []string{"", "hot.*"} {
		subtest(t, "filter "+filter, func(t *testing.T) {
			server := natstest.Start(t)
			js := connect(t, server.URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			r := start(t, js, Config{Bucket: "b", Filter: filter}).synced(t)
			stop := changing(t, kv) // foreign sequences
			defer stop()
			for range 3 {
				other := connect(t, server.URL())
				otherKV, err := other.KeyValue(t.Context(), "b")
				must(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan struct{})
				go func() {
					defer close(done)
					for n := 0; ctx.Err() == nil; n++ {
						_, _ = otherKV.Put(context.Background(), fmt.Sprint("hot.", n%3), doc(n))
					}
				}()
				defer func() { cancel(); <-done }()
			}
			for n := range soak(300) {
				key := fmt.Sprint("hot.", n%3)
				revision := put(t, kv, key, n)
				must(t, r.WaitKey(t.Context(), key, revision))
				var at uint64
				_, _ = fmt.Sscan(r.get(key).ResourceVersion, &at)
				if at < revision {
					t.Fatalf("waited for %d, but the store has %s at %d", revision, key, at)
				}
			}
		})
	}
}

// TestCursorWaitsForAKeyThatWasWrittenAgain: when a key was written twice while the watch was away, only the second
// revision comes, behind all that was written in between. Until then the store does not contain the first one either,
// so the cursor must not pass it.
func TestCursorWaitsForAKeyThatWasWrittenAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		put(t, kv, "anchor", 1)
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		r := start(t, js, Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
			if e.Key == "gate" {
				<-gate
			}
			return decodeThing(e)
		}}).synced(t)
		before := r.Cursor()
		proxy.Refuse()
		first := put(t, kv, "k", 2)
		for i := range 2 * receiveBatch {
			_, err := admin.PublishAsync(fmt.Sprint("$KV.b.between", i), doc(i))
			must(t, err)
			if i%500 == 499 {
				<-admin.PublishAsyncComplete()
			}
		}
		<-admin.PublishAsyncComplete()
		put(t, kv, "gate", 1)
		second := put(t, kv, "k", 3)
		proxy.Resume()
		natstest.Eventually(t, "part of what is between arrives", func() bool { return r.get("between10") != nil })
		if c := r.Cursor(); c != before || !r.has("k", 1) {
			t.Errorf("the cursor is %d, but revision %d of the key is not in the store", c, first)
		}
		open()
		r.reaches(t, first, prompt)
		if !r.has("k", 3) {
			t.Error("the cursor has passed a key that is not up to date")
		}
		r.reaches(t, second, atOnce)
	})
}

// TestTheCursorClaimsNothingOfAnotherStreamBeforeTheStoreHasIt: the stream is made anew, with fewer messages. The old
// stream's cursor must not say that the store has a write to the new one.
func TestTheCursorClaimsNothingOfAnotherStreamBeforeTheStoreHasIt(t *testing.T) {
	for name, atomic := range map[string]bool{"with AtomicFIFO": true, "without": false} {
		subtest(t, name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.UnlockWhileProcessingFIFO, atomic)
			featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, atomic)
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 20 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			var r *running
			claimed := make(chan uint64, 1)
			r = start(t, js, Config{Bucket: "b", OnInvalid: func(Entry, error) {
				claimed <- r.Cursor() // the new list is being applied, and the end of it is still to come
			}})
			r.synced(t)
			must(t, r.WaitCursor(t.Context(), 20))
			must(t, js.DeleteKeyValue(t.Context(), "b"))
			kv = bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "bad", -1)
			last := put(t, kv, "anew", 1)
			if c := <-claimed; c != 0 {
				t.Errorf("the cursor is %d while the new stream's first list is applied", c)
			}
			natstest.Eventually(t, "the cursor is the new stream's", func() bool { return r.Cursor() == last })
			if !r.has("anew", 1) || r.get("k1") != nil {
				t.Error("the cursor is the new stream's, and the store is not")
			}
		})
	}
}

// TestAStreamMadeAnewBetweenTwoRequestsIsNotTakenForTheOldOne: the answer about the old stream, and the list of the
// new.
func TestAStreamMadeAnewBetweenTwoRequestsIsNotTakenForTheOldOne(t *testing.T) {
	for name, test := range map[string]struct {
		before string // this request the stream is made anew
		synced bool   // the informer knows the old one
	}{
		"before the first list": {before: "CONSUMER.CREATE"},
		"before the keys read":  {before: "STREAM.MSG.GET", synced: true},
		"before the next list":  {before: "CONSUMER.CREATE", synced: true},
	} {
		subtest(t, name, func(t *testing.T) {
			server := natstest.Start(t)
			admin, other := connect(t, server.URL()), connect(t, server.URL())
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 20 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			var armed atomic.Bool
			var last atomic.Uint64
			armed.Store(!test.synced)
			relayed, err := admin.Conn().Subscribe("relay.API.>", func(m *nats.Msg) {
				if strings.Contains(m.Subject, test.before) && armed.CompareAndSwap(true, false) {
					must(t, other.DeleteKeyValue(t.Context(), "b"))
					kv := bucket(t, other, jetstream.KeyValueConfig{Bucket: "b"})
					put(t, kv, "bad", -1)
					last.Store(put(t, kv, "anew", 1))
				}
				_ = admin.Conn().PublishRequest("$JS."+strings.TrimPrefix(m.Subject, "relay."), m.Reply, m.Data)
			})
			must(t, err)
			defer func() { must(t, relayed.Unsubscribe()) }()
			js, err := jetstream.NewWithAPIPrefix(connect(t, server.URL()).Conn(), "relay.API")
			must(t, err)
			var r *running
			claimed := make(chan uint64, 10)
			r = start(t, js, Config{Bucket: "b", CompareInterval: time.Hour, OnInvalid: func(Entry, error) {
				claimed <- r.Cursor()
			}})
			if test.synced {
				r.synced(t)
				must(t, r.WaitCursor(t.Context(), 20))
				armed.Store(true)
				must(t, js.Conn().ForceReconnect())
			}
			highest := uint64(0)
			natstest.Eventually(t, "the new stream's keys", func() bool {
				if !test.synced {
					highest = max(highest, r.Cursor())
				}
				return r.has("anew", 1) && r.get("k1") == nil
			})
			within(t, prompt, "the cursor is the new stream's", func() bool { return r.Cursor() == last.Load() })
			if c := max(<-claimed, highest); c > last.Load() {
				t.Errorf("the cursor was %d, and the new stream is at %d", c, last.Load())
			}
		})
	}
}
