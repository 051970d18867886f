package natsinformer

import (
	"fmt"
	"maps"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// backedUp is a bucket with a snapshot, and an informer that has followed what was written since the snapshot.
type backedUp struct {
	server   *natstest.Server
	proxy    *natstest.Proxy // between the informer and the server
	admin    jetstream.JetStream
	js       jetstream.JetStream // the informer's
	kv       jetstream.KeyValue
	snapshot *natstest.Snapshot
	r        *running
	known    map[string]int // what the store had when the stream was restored
	events   int            // that the handler had got by then
}

// takeSnapshot takes a snapshot in today's format, from which a restore makes a stream with a new time of creation, or
// in the old one, which keeps the time of creation.
func takeSnapshot(t *testing.T, b *backedUp, format string) {
	t.Helper()
	var err error
	if format == "old" {
		b.snapshot, err = b.server.TakeOldSnapshot(t.Context(), b.admin.Conn(), "KV_b")
	} else {
		b.snapshot, err = natstest.TakeSnapshot(t.Context(), b.admin.Conn(), "KV_b")
	}
	must(t, err)
	answersNow(t, b.admin, "b")
	answersNow(t, b.js, "b")
}

// startBackedUp deletes k5 before the snapshot. After it, it creates some keys (new), updates some (k0 to k4), deletes
// some (k10 to k12), and creates and deletes one (brief).
func startBackedUp(t *testing.T, format string) *backedUp {
	t.Helper()
	b := &backedUp{server: natstest.Start(t), known: map[string]int{}}
	b.proxy = natstest.StartProxy(t, b.server.URL())
	b.admin, b.js = connect(t, b.server.URL()), connect(t, b.proxy.URL())
	b.kv = bucket(t, b.admin, jetstream.KeyValueConfig{Bucket: "b"})
	for i := range 20 {
		put(t, b.kv, fmt.Sprint("k", i), i+1)
	}
	must(t, b.kv.Delete(t.Context(), "k5"))
	takeSnapshot(t, b, format)
	b.r = start(t, b.js, Config{Bucket: "b"}).synced(t)
	for i := range 5 {
		put(t, b.kv, fmt.Sprint("k", i), 1000+i)
		put(t, b.kv, fmt.Sprint("new", i), 1100+i)
	}
	for i := range 3 {
		must(t, b.kv.Delete(t.Context(), fmt.Sprint("k", 10+i)))
	}
	put(t, b.kv, "brief", 1)
	must(t, b.kv.Purge(t.Context(), "brief"))
	b.r.follows(t, b.kv, "k19", 5000, atOnce)
	b.r.converges(t, b.kv, atOnce)
	for _, obj := range b.r.GetStore().List() {
		b.known[obj.(*thing).Name] = obj.(*thing).N
	}
	b.events = len(b.r.seen.all())
	return b
}

// restore deletes the stream and restores it, as an operator does.
func (b *backedUp) restore(t *testing.T) {
	t.Helper()
	must(t, b.admin.DeleteStream(t.Context(), "KV_b"))
	must(t, b.snapshot.Restore(t.Context(), b.admin.Conn()))
}

// toldOfTheRestore checks what the handler got since the restore: in the end the state of each key, and before that
// inferred deletes with the last known object, since nobody deleted anything. If the stream was made anew, each known
// key is deleted.
func (b *backedUp) toldOfTheRestore(t *testing.T, anew bool) {
	t.Helper()
	now := contents(t, b.kv)
	last := maps.Clone(b.known)
	deleted := map[string]bool{}
	for _, e := range b.r.seen.all()[b.events:] {
		if e.kind != "delete" {
			last[e.key] = e.n
			continue
		}
		if n, known := last[e.key]; !known || e.n != n || e.deletion != (Deletion{false, DeleteVanished}) {
			t.Errorf("%s, last known as %d, was deleted as %d, %+v", e.key, n, e.n, e.deletion)
		}
		delete(last, e.key)
		deleted[e.key] = true
	}
	for key := range b.known {
		if _, exists := now[key]; (!exists || anew) && !deleted[key] {
			t.Errorf("%s is not deleted by what the handler was told", key)
		}
	}
	for key, revision := range now {
		e := b.r.seen.last(key)
		if e.kind == "delete" || e.revision != revision || e.n != last[key] {
			t.Errorf("%s is at revision %d, and the handler was told at last %+v", key, revision, e)
		}
	}
	if len(last) != len(now) {
		t.Errorf("by what the handler was told there are %d keys, and there are %d", len(last), len(now))
	}
}

// TestRestoredFromASnapshotThroughTheAPI: the stream is deleted and restored while the informer watches or is away, at
// lower sequences; or others write on past the informer's cursor before it looks again. In each case the store ends
// equal to the server's, and keys that vanished are deleted.
func TestRestoredFromASnapshotThroughTheAPI(t *testing.T) {
	for _, format := range []string{"today's", "old"} {
		for name, test := range map[string]struct {
			away   bool
			writes int // by others, before the informer looks
		}{
			"while it looks on":                            {},
			"while it is away":                             {away: true},
			"while it is away, and written below":          {away: true, writes: 10},
			"while it is away, and written past":           {away: true, writes: 60},
			"while it looks on, and written past the same": {writes: 60},
		} {
			subtest(t, format+" snapshot, "+name, func(t *testing.T) {
				b := startBackedUp(t, format)
				cursor := b.r.Cursor()
				if test.away {
					b.proxy.Refuse()
				}
				b.restore(t)
				for i := range test.writes {
					put(t, b.kv, fmt.Sprint([]string{"k", "other"}[i%2], i%25), 2000+i)
				}
				if sequence := lastSequence(t, b.admin); sequence > cursor != (test.writes > 20) {
					t.Fatalf("the stream is at %d, the cursor was at %d", sequence, cursor)
				}
				b.proxy.Resume()
				answersNow(t, b.js, "b")
				b.r.converges(t, b.kv, prompt)
				within(t, prompt, "the handler is told", func() bool {
					for key := range b.known {
						if b.r.get(key) == nil && b.r.seen.last(key).kind != "delete" {
							return false
						}
					}
					for _, obj := range b.r.GetStore().List() {
						if o := obj.(*thing); fmt.Sprint(b.r.seen.last(o.Name).revision) != o.ResourceVersion {
							return false
						}
					}
					return true
				})
				b.toldOfTheRestore(t, format != "old")
				if n := b.r.Status().StreamChanges; n != 1 {
					t.Errorf("StreamChanges is %d", n)
				}
				b.r.follows(t, b.kv, "k3", 9999, prompt)
				must(t, b.kv.Delete(t.Context(), "k3"))
				within(t, atOnce, "a delete after it", func() bool { return b.r.seen.last("k3").kind == "delete" })
				if e := b.r.seen.last("k3"); e.deletion != (Deletion{true, DeleteMarker}) || e.n != 9999 {
					t.Errorf("k3: %+v", e)
				}
				b.r.converges(t, b.kv, atOnce)
			})
		}
	}
}

func lastSequence(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	return stream.CachedInfo().State.LastSeq
}

// TestARestoreIsToldFromAListThatWasDueAnyway: a stream may be restored and written past the cursor while a list is
// due, as after a server's restart. It still counts as a restored one: nobody has deleted the keys missing in it.
func TestARestoreIsToldFromAListThatWasDueAnyway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		b := startBackedUp(t, "old")
		b.r.stop()
		b.restore(t)
		for i := range 60 {
			put(t, b.kv, fmt.Sprint("later", i), 2000+i)
		}
		src := b.r.Informer.(*informer).src
		w := newWorker(src)
		w.relistCause = errDoubted
		s, err := newSession(src, make(chan nats.Status))
		must(t, err)
		defer s.close()
		info, err := s.info(t.Context())
		must(t, err)
		if info.State.LastSeq < w.cursor || !info.Created.Equal(w.created) {
			t.Fatalf("the stream is at %d and the cursor at %d: nothing but its messages must tell",
				info.State.LastSeq, w.cursor)
		}
		m, err := w.identify(t.Context(), s, info)
		if err != nil || m != restored {
			t.Errorf("it is taken for %d (%v), and it is %d", m, err, restored)
		}
	})
}
