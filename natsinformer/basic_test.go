package natsinformer

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestStoreFollowsTheBucket(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 100 {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		r.converges(t, kv, atOnce)
		revision := put(t, kv, "k1", 1000)
		must(t, r.WaitCursor(t.Context(), revision))
		if !r.has("k1", 1000) {
			t.Error("the cursor has reached an update that is not in the store")
		}
		must(t, kv.Delete(t.Context(), "k2"))
		must(t, kv.Purge(t.Context(), "k3"))
		put(t, kv, "new", 7)
		r.converges(t, kv, atOnce)
		within(t, atOnce, "handler", func() bool { return r.seen.last("new").n == 7 })
		if e := r.seen.last("k2"); e.kind != "delete" || e.n != 2 ||
			e.deletion != (Deletion{true, DeleteMarker}) || e.revision != revision+1 {
			t.Errorf("delete: %+v", e)
		}
		if e := r.seen.last("k3"); e.kind != "delete" || e.n != 3 || e.deletion != (Deletion{true, PurgeMarker}) {
			t.Errorf("purge: %+v", e)
		}
		r.seen.inOrder(t)
		leaveNothing(t, js, "b", r)
	})
}

func TestEmptyBucketSyncs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		r.follows(t, kv, "a", 1, atOnce)
		must(t, kv.Delete(t.Context(), "a"))
		must(t, kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
		s := start(t, js, Config{Bucket: "b"}).synced(t)
		s.reaches(t, 2, atOnce) // although no message is left
	})
}
