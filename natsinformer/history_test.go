package natsinformer

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// deep makes a bucket that keeps several revisions of a key, whose messages may have a time to live.
func deep(t *testing.T, js jetstream.JetStream, markers time.Duration) jetstream.KeyValue {
	t.Helper()
	time.Sleep(time.Nanosecond) // as in bucket
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 5, Discard: jetstream.DiscardNew,
		AllowMsgTTL: true, AllowDirect: true, SubjectDeleteMarkerTTL: markers, AllowRollup: markers > 0,
	})
	must(t, err)
	kv, err := js.KeyValue(t.Context(), "b")
	must(t, err)
	return kv
}

// isAsRead waits until the store has of a key what the bucket has, and checks the handler's last event.
func (r *running) isAsRead(t *testing.T, kv jetstream.KeyValue, key string, n int) {
	t.Helper()
	within(t, prompt, fmt.Sprintf("%s=%d is in the store", key, n), func() bool { return r.has(key, n) })
	entry, err := kv.Get(t.Context(), key)
	must(t, err)
	if version := r.get(key).ResourceVersion; version != strconv.FormatUint(entry.Revision(), 10) {
		t.Errorf("%s is in the store at %s, and in the bucket at %d", key, version, entry.Revision())
	}
	within(t, prompt, key+" is told", func() bool { return r.seen.last(key).n == n })
	if last := r.seen.last(key); last.kind == "delete" || last.revision != entry.Revision() {
		t.Errorf("%s was told as %+v", key, last)
	}
}

// In a bucket that keeps several revisions, the one before becomes the latest again when the newest expires.
func TestAnOlderRevisionThatIsTheLatestAgainIsRead(t *testing.T) {
	for _, markers := range []time.Duration{0, time.Second} {
		subtest(t, fmt.Sprint("markers for ", markers), func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := deep(t, js, markers)
			must(t, publish(js, "$KV.b.twice")) // n is 1
			putFor(t, js, "twice", `{"n":2}`, "20s")
			putFor(t, js, "twice", `{"n":3}`, "5s")
			must(t, publish(js, "$KV.b.listed"))
			putFor(t, js, "listed", `{"n":2}`, "5s")
			put(t, kv, "same", 1)
			var invalid, resolved []string
			r := start(t, js, Config{
				Bucket: "b", OnInvalid: func(e Entry, _ error) { invalid = append(invalid, e.Key) },
				OnResolved: func(key string) { resolved = append(resolved, key) },
			}).synced(t)
			r.follows(t, kv, "same", 2, prompt)
			must(t, publish(js, "$KV.b.watched"))
			putFor(t, js, "watched", `{"n":2}`, "5s")
			must(t, publish(js, "$KV.b.mended"))
			putFor(t, js, "mended", `nonsense`, "5s")
			_, err := kv.PutString(t.Context(), "broken", `nonsense`)
			must(t, err)
			putFor(t, js, "broken", `{"n":2}`, "5s")
			must(t, publish(js, "$KV.b.deleted"))
			must(t, kv.Delete(t.Context(), "deleted"))
			putFor(t, js, "deleted", `{"n":2}`, "5s")
			last := put(t, kv, "same", 3)
			r.reaches(t, last, prompt)
			lowest := last
			for range 40 {
				time.Sleep(250 * time.Millisecond)
				lowest = min(lowest, r.Cursor())
			}
			if lowest < last {
				t.Errorf("the cursor went from %d back to %d", last, lowest)
			}
			r.isAsRead(t, kv, "twice", 2)
			r.isAsRead(t, kv, "listed", 1)
			r.isAsRead(t, kv, "watched", 1)
			r.isAsRead(t, kv, "mended", 1)
			if r.IsInvalid("mended") || resolved[len(resolved)-1] != "mended" {
				t.Errorf("resolved %v, invalid %v", resolved, r.Invalid())
			}
			if !r.IsInvalid("broken") || len(invalid) < 2 || invalid[len(invalid)-1] != "broken" {
				t.Errorf("told as invalid %v, invalid are %v", invalid, r.Invalid())
			}
			if e := r.seen.last("deleted"); e.kind != "delete" || e.n != 2 || r.get("deleted") != nil {
				t.Errorf("deleted: %+v", e)
			}
			r.versioned(t)
			time.Sleep(20 * time.Second)
			r.isAsRead(t, kv, "twice", 1)
			r.follows(t, kv, "twice", 4, prompt)
			time.Sleep(10 * time.Minute) // a list or two, which find nothing more
			for key, n := range map[string]int{"twice": 4, "listed": 1, "watched": 1, "mended": 1, "same": 3} {
				r.isAsRead(t, kv, key, n)
			}
			if st := r.Status(); st.StreamChanges != 0 || st.Err != nil || st.Invalid != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// What is written meanwhile counts.
func TestAnOlderRevisionIsNotReadInThePlaceOfANewerOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := deep(t, admin, 0)
		put(t, kv, "same", 1)
		js := tampered(t, server, natstest.Each(natstest.AnswersTo(getRequests), natstest.Fate{Late: 3 * time.Second}))
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		must(t, publish(admin, "$KV.b.k"))
		putFor(t, admin, "k", `{"n":2}`, "5s")
		time.Sleep(7 * time.Second) // the leader was asked, and its answer is on its way
		put(t, kv, "k", 3)
		time.Sleep(time.Minute)
		r.isAsRead(t, kv, "k", 3)
		for _, e := range r.seen.of("k") {
			if e.kind == "delete" {
				t.Errorf("%+v", e)
			}
		}
		r.converges(t, kv, prompt)
	})
}

// While the cursor waits for a missing message, an older revision that is the latest again does not release it.
func TestAnOlderRevisionThatIsTheLatestAgainReleasesNothing(t *testing.T) {
	created := time.Unix(1000, 0)
	due := time.Unix(2000, 0)
	w := newWorker(&source{keys: newKeys(), health: &health{}, created: created, cursor: 9})
	w.progress = &progress{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	w.cfg.Decode = decodeThing
	object := &thing{}
	object.Name, object.ResourceVersion = "k", "5"
	w.keys.put(&item{key: "k", seq: 5, created: due.Add(-time.Minute).UnixNano(), object: object,
		header: nats.Header{ttlHeader: {"60"}}}, w.keys)
	w.progress.hold(7)
	info := &streamInfo{Created: created, Time: due.Add(time.Second), Total: 1}
	info.State.LastSeq, info.Config.History = 9, 5
	older := &storedMessage{Seq: 4, Time: created, Value: doc(1)}
	must(t, w.takeExpiry(t.Context(), nil, expiryAnswer{deadline: w.keys.expires.next(), info: info, latest: older}))
	if w.keys.revisionOf("k") != 5 || !w.progress.open() {
		t.Errorf("k is at %d, and the cursor waits: %t", w.keys.revisionOf("k"), w.progress.open())
	}
}
