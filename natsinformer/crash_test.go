package natsinformer

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatAKilledServerBringsBackIsNoticed: a server that is killed after a purge comes back with the revision before
// the purged one, because it had not yet written down that this revision was replaced. Its sequence was read long
// ago, and the stream has as many keys as before.
func TestWhatAKilledServerBringsBackIsNoticed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const keys = 100 // more than the informer looks at to know the stream again
		const interval = 2 * time.Second
		server := startRestorable(t)
		js, informers := connect(t, server.URL()), connect(t, server.proxy.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		first := put(t, kv, "updated", 1)
		put(t, kv, "deleted", 1)
		r := start(t, informers, Config{Bucket: "b", CompareInterval: interval}).synced(t)
		r.follows(t, kv, "updated", 2, atOnce)
		must(t, kv.Delete(t.Context(), "deleted"))
		for i := range keys {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		r.converges(t, kv, atOnce)

		stream, err := js.Stream(t.Context(), "KV_b")
		must(t, err)
		server.proxy.Refuse() // or it might notice what was purged
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.updated")))
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.deleted")))
		server.kill(t)
		server.proxy.Resume()

		answersNow(t, js, "b")
		answersNow(t, informers, "b")
		if now := contents(t, kv); now["updated"] != first || len(now) != keys+2 {
			t.Fatalf("the server has updated at %d (it was %d first) and %d keys: this test has lost its subject",
				now["updated"], first, len(now))
		}
		r.converges(t, kv, prompt+interval)
		if e := r.seen.last("updated"); e.kind != "update" || e.n != 1 {
			t.Errorf("the handler was told %+v of what came back", e)
		}
		if st := r.Status(); st.StreamChanges != 0 {
			t.Errorf("%d changes of the stream", st.StreamChanges)
		}
		// One list for the consumer that was lost, and none when all is quiet again.
		time.Sleep(2 * interval)
		r.follows(t, kv, "k1", 5000, atOnce)
		if lists := r.Status().Lists; lists != 2 {
			t.Errorf("%d lists", lists)
		}
	})
}
