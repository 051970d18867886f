package natsinformer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// unmarked makes a bucket whose messages may have a time to live, and which leaves no marker of what expires.
func unmarked(t testing.TB, js jetstream.JetStream, replicas int) jetstream.KeyValue {
	t.Helper()
	time.Sleep(time.Nanosecond) // later than the one before, see bucket
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		Storage: jetstream.MemoryStorage, Replicas: replicas, AllowMsgTTL: true,
		AllowDirect: true, DenyDelete: true,
	})
	must(t, err)
	kv, err := js.KeyValue(t.Context(), "b")
	must(t, err)
	return kv
}

// putFor writes a document with a time to live, in the server's words.
func putFor(t testing.TB, js jetstream.JetStream, key, document, ttl string) {
	t.Helper()
	_, err := js.PublishMsg(t.Context(), &nats.Msg{
		Subject: "$KV.b." + key, Data: []byte(document), Header: nats.Header{ttlHeader: {ttl}},
	})
	must(t, err)
}

// gone waits until the server has nothing of these keys.
func gone(t testing.TB, js jetstream.JetStream, keys ...string) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	for _, key := range keys {
		natstest.Eventually(t, key+" is gone on the server", func() bool {
			info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$KV.b."+key))
			return err == nil && len(info.State.Subjects) == 0
		})
	}
}

// wasDeleted waits until the delete of a key was told, and checks how.
func (r *running) wasDeleted(t testing.TB, key string, n int, want Deletion) {
	t.Helper()
	within(t, prompt, key+" is delivered as deleted", func() bool { return r.seen.last(key).kind == "delete" })
	if e := r.seen.last(key); e.deletion != want || e.n != n {
		t.Errorf("%s: %+v, want n %d and %+v", key, e, n, want)
	}
}

var ranOut = Deletion{Evidenced: true, Reason: ExpiryMarker}

// TestAKeyWhoseTimeIsOverIsDeleted, promptly and as evidenced, though the server says nothing.
func TestAKeyWhoseTimeIsOverIsDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := unmarked(t, js, 1)
		putFor(t, js, "listed", `{"n":1}`, "5")
		putFor(t, js, "never", `{"n":1}`, "never")
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		r.follows(t, kv, "stays", 1, atOnce)
		for i, ttl := range []string{"2", "2s", "2900ms"} {
			putFor(t, js, fmt.Sprint("k", i), `{"n":7}`, ttl)
		}
		for _, key := range []string{"k0", "k1", "k2"} {
			gone(t, js, key)
			r.wasDeleted(t, key, 7, ranOut)
		}
		gone(t, js, "listed")
		r.wasDeleted(t, "listed", 1, ranOut)
		r.converges(t, kv, atOnce)
		for _, key := range []string{"never", "stays"} {
			if r.seen.last(key).kind != "add" {
				t.Errorf("%s: %+v", key, r.seen.of(key))
			}
		}
		if lists := r.Status().Lists; lists != 1 {
			t.Errorf("%d lists", lists)
		}
		r.seen.inOrder(t)
	})
}

// TestAKeyThatIsWrittenAgainInTimeStays.
func TestAKeyThatIsWrittenAgainInTimeStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := unmarked(t, js, 1)
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		r.follows(t, kv, "probe", 1, atOnce)
		putFor(t, js, "kept", `{"n":1}`, "1s")
		put(t, kv, "kept", 2)
		putFor(t, js, "renewed", `{"n":1}`, "1s")
		putFor(t, js, "renewed", `{"n":2}`, "1h")
		putFor(t, js, "first", `{"n":1}`, "2s")
		gone(t, js, "first")
		r.wasDeleted(t, "first", 1, ranOut)
		for _, key := range []string{"kept", "renewed"} {
			if !r.has(key, 2) || r.seen.last(key).kind == "delete" {
				t.Errorf("%s: %+v", key, r.seen.of(key))
			}
		}
		r.converges(t, kv, atOnce)
	})
}

// TestManyKeysExpireAtOnce, and no list is needed to find them.
func TestManyKeysExpireAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const many = 5 * expiryWindow
		js := connect(t, natstest.Start(t).URL())
		kv := unmarked(t, js, 1)
		r := start(t, js, Config{Bucket: "b", CompareInterval: 200 * time.Millisecond}).synced(t)
		r.follows(t, kv, "stays", 1, atOnce)
		for i := range many {
			putFor(t, js, fmt.Sprint("k", i), `{"n":7}`, "2s")
		}
		gone(t, js, fmt.Sprint("k", many-1))
		within(t, prompt, "all are deleted", func() bool { return len(r.GetStore().ListKeys()) == 1 })
		r.converges(t, kv, atOnce)
		of := func(kind string) []seenEvent {
			return slices.DeleteFunc(r.seen.all(), func(e seenEvent) bool { return e.kind != kind })
		}
		within(t, atOnce, "all are told", func() bool { return len(of("delete")) == len(of("add"))-1 })
		for _, e := range of("delete") {
			if e.deletion != ranOut || e.n != 7 {
				t.Fatalf("%+v", e)
			}
		}
		if lists := r.Status().Lists; lists != 1 {
			t.Errorf("%d lists", lists)
		}
	})
}

// TestWhatRanOutWhileAwayIsEvidenced, when the watch goes on and when the stream has to be listed. What vanished before
// its time was over is not.
func TestWhatRanOutWhileAwayIsEvidenced(t *testing.T) {
	for name, listed := range map[string]bool{"the watch goes on": false, "the stream is listed": true} {
		subtest(t, name, func(t *testing.T) {
			server := natstest.Start(t)
			proxy := natstest.StartProxy(t, server.URL())
			admin, js := connect(t, server.URL()), connect(t, proxy.URL())
			kv := unmarked(t, admin, 1)
			putFor(t, admin, "long", `{"n":8}`, "1h")
			put(t, kv, "plain", 9)
			r := start(t, js, Config{Bucket: "b", CompareInterval: 500 * time.Millisecond}).synced(t)
			r.follows(t, kv, "hot", 1, atOnce)
			putFor(t, admin, "short", `{"n":7}`, "5s")
			within(t, atOnce, "it is there", func() bool { return r.has("short", 7) })
			proxy.Refuse()
			stream, err := admin.Stream(t.Context(), "KV_b")
			must(t, err)
			for _, key := range []string{"long", "plain"} {
				must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b."+key)))
			}
			if listed {
				put(t, kv, "hot", 2) // no message that was read is left to prove that the stream is the same
			}
			gone(t, admin, "short")
			proxy.Resume()
			answersNow(t, js, "b")
			r.wasDeleted(t, "short", 7, ranOut)
			r.converges(t, kv, 2*prompt) // which takes a comparison
			r.wasDeleted(t, "long", 8, Deletion{false, DeleteVanished})
			r.wasDeleted(t, "plain", 9, Deletion{false, DeleteVanished})
		})
	}
}

// TestOfAnotherStreamNothingIsEvidenced: of a bucket that was made again, a key that would have run out by now is not
// known to have done so.
func TestOfAnotherStreamNothingIsEvidenced(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := unmarked(t, admin, 1)
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		r.follows(t, kv, "probe", 1, atOnce)
		putFor(t, admin, "k", `{"n":7}`, "4s")
		within(t, atOnce, "it is there", func() bool { return r.has("k", 7) })
		proxy.Refuse()
		gone(t, admin, "k")
		must(t, admin.DeleteStream(t.Context(), "KV_b"))
		kv = unmarked(t, admin, 1)
		put(t, kv, "other", 1)
		proxy.Resume()
		answersNow(t, js, "b")
		r.wasDeleted(t, "k", 7, Deletion{false, DeleteVanished})
		r.converges(t, kv, atOnce)
	})
}

// TestAnAgeLimitWithoutMarkersIsNoEvidence.
func TestAnAgeLimitWithoutMarkersIsNoEvidence(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := unmarked(t, js, 1)
		putFor(t, js, "k", `{"n":7}`, "1h")
		put(t, kv, "plain", 8)
		r := start(t, js, Config{Bucket: "b", CompareInterval: 200 * time.Millisecond}).synced(t)
		expire(t, js, time.Second)
		gone(t, js, "k", "plain")
		r.converges(t, kv, 2*prompt) // which takes a comparison
		r.wasDeleted(t, "k", 7, Deletion{false, ExpiryMarker})
		r.wasDeleted(t, "plain", 8, Deletion{false, ExpiryMarker})
	})
}

// TestAnInvalidDocumentMayRunOut: it is resolved, and deleted as the last good version if there was one.
func TestAnInvalidDocumentMayRunOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := unmarked(t, js, 1)
		put(t, kv, "once-good", 1)
		var told reports
		r := start(t, js, told.configure(Config{Bucket: "b"})).synced(t)
		r.follows(t, kv, "probe", 1, atOnce)
		putFor(t, js, "bad", `{"n":-1}`, "2s")
		putFor(t, js, "once-good", `{"n":-1}`, "2s")
		within(t, atOnce, "both were invalid", func() bool {
			all := told.String()
			return strings.Contains(all, "invalid bad@") && strings.Contains(all, "invalid once-good@")
		})
		gone(t, js, "bad", "once-good")
		r.wasDeleted(t, "once-good", 1, ranOut)
		within(t, prompt, "both are resolved", func() bool { return r.Status().Invalid == 0 })
		if r.Exists("bad") || r.Exists("once-good") || len(r.seen.of("bad")) != 0 {
			t.Errorf("bad: %+v, once-good: %+v", r.seen.of("bad"), r.seen.of("once-good"))
		}
	})
}

// TestAFilteredInformerSeesWhatRunsOut.
func TestAFilteredInformerSeesWhatRunsOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := unmarked(t, js, 1)
		r := start(t, js, Config{Bucket: "b", Filter: "ours.>"}).synced(t)
		r.follows(t, kv, "ours.probe", 1, atOnce)
		putFor(t, js, "ours.k", `{"n":7}`, "2s")
		putFor(t, js, "theirs.k", `{"n":7}`, "1s")
		put(t, kv, "theirs.other", 1) // behind the filtered cursor
		gone(t, js, "ours.k")
		r.wasDeleted(t, "ours.k", 7, ranOut)
		if len(r.seen.of("theirs.k")) != 0 {
			t.Errorf("%+v", r.seen.of("theirs.k"))
		}
	})
}

// TestTheLeadersWordDecidesWhetherAKeyHasExpired.
func TestTheLeadersWordDecidesWhetherAKeyHasExpired(t *testing.T) {
	created := time.Unix(1000, 0)
	due := time.Unix(2000, 0)
	answer := func(change func(*streamInfo)) *streamInfo {
		info := &streamInfo{Created: created, Time: due.Add(time.Second)}
		info.State.LastSeq, info.Config.History = 9, 1
		change(info)
		return info
	}
	for name, test := range map[string]struct {
		info    *streamInfo
		err     error
		again   bool // written again meanwhile
		deleted bool
		ends    bool // the session
	}{
		"it is gone":         {info: answer(func(*streamInfo) {}), deleted: true},
		"it is there":        {info: answer(func(i *streamInfo) { i.Total = 1 })},
		"behind the cursor":  {info: answer(func(i *streamInfo) { i.State.LastSeq = 8 })},
		"too early":          {info: answer(func(i *streamInfo) { i.Time = due.Add(-time.Second) })},
		"it was renewed":     {info: answer(func(*streamInfo) {}), again: true},
		"of another stream":  {info: answer(func(i *streamInfo) { i.Created = due }), ends: true},
		"nobody answers":     {err: fmt.Errorf("as usual: %w", nats.ErrTimeout)},
		"it may not be told": {err: nats.ErrPermissionViolation, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(&source{
				keys: newKeys(), health: &health{}, progress: &progress{}, created: created, cursor: 9,
			})
			events := make(chan watch.Event, 1)
			w.events = events
			put := func(seq uint64, ttl string) {
				object := &thing{}
				object.Name, object.ResourceVersion = "k", formatVersion(seq)
				w.keys.put(&item{key: "k", seq: seq, created: due.Add(-time.Minute).UnixNano(), object: object,
					header: nats.Header{ttlHeader: {ttl}}}, w.keys)
			}
			put(5, "60")
			asked := w.keys.expires.next()
			if asked == nil || asked.at != due.UnixNano() {
				t.Fatalf("due %+v", asked)
			}
			if test.again {
				put(9, "60")
			}
			err := w.takeExpiry(context.Background(), nil, expiryAnswer{deadline: asked, info: test.info, err: test.err})
			if (err != nil) != test.ends {
				t.Errorf("the session ends with %v", err)
			}
			if _, there := w.keys.live.get("k"); there == test.deleted {
				t.Errorf("it is known: %v", there)
			}
			if test.deleted && DeleteOf((<-events).Object) != ranOut {
				t.Error("it is not evidenced")
			}
		})
	}
}

// TestDeadlinesNeedNoMoreThanTheirKeys, however often those are renewed, and are looked at more and more rarely.
func TestDeadlinesNeedNoMoreThanTheirKeys(t *testing.T) {
	d := newDeadlines()
	for i := range int64(1000) {
		d.set("renewed", 1000+i, false)
		d.set(fmt.Sprint("k", i%10), 5000-i, false)
	}
	d.set("renewed", 0, false)
	if len(d.of) != 10 || len(d.order) != 10 {
		t.Errorf("%d keys, %d in order", len(d.of), len(d.order))
	}
	var looks []int64
	for one := d.next(); one != nil; one = d.next() {
		looks = append(looks, one.look)
		d.drop(one.key)
	}
	for i := range looks {
		if looks[i] != 4001+int64(i) {
			t.Fatalf("looked at in the order %v", looks)
		}
	}
	d.set("late", 0+1, false)
	late, pause := d.next(), time.Duration(0)
	for range 200 {
		now := late.look
		d.postpone(late, now)
		if next := time.Duration(late.look - now); next < pause || next < expiryPauseMin || next > expiryPauseMax {
			t.Fatalf("a pause of %v after one of %v", next, pause)
		} else {
			pause = next
		}
	}
	if pause != expiryPauseMax {
		t.Errorf("the last pause is %v", pause)
	}
}

// TestATimeToLiveIsReadAsTheServerDoes.
func TestATimeToLiveIsReadAsTheServerDoes(t *testing.T) {
	const created = int64(7)
	for ttl, want := range map[string]time.Duration{
		"5": 5 * time.Second, "5s": 5 * time.Second, "1m30s": 90 * time.Second, "2900ms": 2 * time.Second,
		"1h": time.Hour, "never": 0, "NEVER": 0, "0": 0, "": 0, "-5": 0, "soon": 0, "999ms": 0, "1.5": 0,
		"9223372036854775807": 0, "99999999999999999999": 0,
	} {
		at := int64(0)
		if want != 0 {
			at = created + int64(want)
		}
		if got := expiryOf(nats.Header{ttlHeader: {ttl}}, created); got != at {
			t.Errorf("%q: %d, want %d", ttl, got, at)
		}
		entry := Entry{Created: time.Unix(0, created), Header: nats.Header{ttlHeader: {ttl}}}
		expires, never := entry.Expires()
		if expires.IsZero() != (at == 0) || at != 0 && expires.UnixNano() != at ||
			never != (strings.ToLower(ttl) == "never") {
			t.Errorf("%q: the entry expires at %v, never %v", ttl, expires, never)
		}
	}
	if at, never := (Entry{}).Expires(); !at.IsZero() || never {
		t.Errorf("without a header: %v, %v", at, never)
	}
}

// TestOnlyTheMarkerOfAValuesAgeIsOne: the marker of a delete grows too old, too, and so does the one of that.
func TestOnlyTheMarkerOfAValuesAgeIsOne(t *testing.T) {
	for name, test := range map[string]struct {
		before, then []DeleteReason // "" is a value
		want         uint64
	}{
		"a value":                             {nil, []DeleteReason{""}, 0},
		"a value and its age":                 {nil, []DeleteReason{"", expiredByAge}, 2},
		"an age that was listed":              {nil, []DeleteReason{expiredByAge}, 1},
		"a delete":                            {nil, []DeleteReason{"", DeleteMarker}, 0},
		"the age of a delete":                 {nil, []DeleteReason{"", DeleteMarker, expiredByAge}, 0},
		"the age of a purge":                  {nil, []DeleteReason{"", PurgeMarker, expiredByAge}, 0},
		"the age of the age of a delete":      {nil, []DeleteReason{DeleteMarker, expiredByAge, expiredByAge}, 0},
		"the age of a delete of what aged":    {nil, []DeleteReason{"", expiredByAge, DeleteMarker, expiredByAge}, 0},
		"the age of the next value":           {nil, []DeleteReason{DeleteMarker, expiredByAge, "", expiredByAge}, 4},
		"the end that the writer set":         {nil, []DeleteReason{"", ExpiryMarker}, 0},
		"a value that aged before a list":     {[]DeleteReason{""}, []DeleteReason{expiredByAge}, 2},
		"a delete that aged before a list":    {[]DeleteReason{"", DeleteMarker}, []DeleteReason{expiredByAge}, 0},
		"a value after a delete, in the list": {[]DeleteReason{DeleteMarker}, []DeleteReason{"", expiredByAge}, 3},
	} {
		seq := uint64(0)
		play := func(k, old *keys, reasons []DeleteReason) {
			for _, reason := range reasons {
				seq++
				it := &item{key: "k", seq: seq, created: int64(seq), reason: reason}
				if reason == "" {
					it.object = &thing{}
				}
				k.put(it, old)
			}
		}
		before := newKeys()
		now := before
		if test.before != nil {
			play(before, before, test.before)
			now = newKeys() // another list
		}
		play(now, before, test.then)
		if got := (&informer{src: &source{keys: now}}).Aged("k"); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
