package natsinformer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestForeignSubjectsCostOneList: a stream may have subjects that are no keys of the bucket.
func TestForeignSubjectsCostOneList(t *testing.T) {
	js := connect(t, natstest.Start(t).URL())
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "k", 1)
	put(t, kv, "gone", 1)
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	cfg := stream.CachedInfo().Config
	cfg.Subjects = append(cfg.Subjects, "audit.>")
	_, err = js.UpdateStream(t.Context(), cfg)
	must(t, err)
	_, err = js.Publish(t.Context(), "audit.x", nil)
	must(t, err)
	stalled := stalls(t)
	r := start(t, js, Config{Bucket: "b", CompareInterval: 200 * time.Millisecond}).synced(t)
	eventually(t, 10*time.Second, "compared", func() bool { return r.Status().Compares >= 4 })
	// When the machine stalls, the watch may take its consumer for silent. After that it lists within the interval.
	if lists := r.Status().Lists; lists > 2+stalled() {
		t.Errorf("%d lists, and the machine stalled %d times", lists, stalled())
	}
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.gone")))
	eventually(t, prompt, "a key that vanished is still found", func() bool { return r.get("gone") == nil })
}

// TestManyExpiredTombstonesCostNoList: they are all asked for, however many they are, but only a few at a time.
func TestManyExpiredTombstonesCostNoList(t *testing.T) {
	t.Parallel() // it waits
	srv := natstest.Start(t)
	admin := connect(t, srv.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
	put(t, kv, "stays", 1)
	js := counting(t, admin, srv.URL())
	stalled := stalls(t)
	r := start(t, js.JetStream, Config{Bucket: "b", CompareInterval: 2 * time.Second}).synced(t)
	for n := range 600 {
		_, err := admin.PublishMsgAsync(&nats.Msg{
			Subject: fmt.Sprint("$KV.b.k", n),
			Header:  nats.Header{operationHeader: {"DEL"}, ttlHeader: {"1s"}},
		})
		must(t, err)
		if n%200 == 199 {
			<-admin.PublishAsyncComplete()
		}
	}
	eventually(t, 20*time.Second, "expired", func() bool {
		s, err := admin.Stream(t.Context(), "KV_b")
		return err == nil && s.CachedInfo().State.NumSubjects == 1
	})
	before := r.Status().Compares
	eventually(t, 20*time.Second, "compared", func() bool { return r.Status().Compares >= before+2 })
	// When the machine stalls, the watch may take its consumer for silent. The keys that would tell it that the stream
	// is the same have expired, so it lists.
	if st := r.Status(); st.Lists > 1+stalled() {
		t.Errorf("%d lists, and the machine stalled %d times", st.Lists, stalled())
	}
	if most := js.most.Load(); most == 0 || most > tombWindow {
		t.Errorf("%d messages were asked for at once", most)
	}
}

// countedGets is a JetStream context through a relay that counts how many MSG.GET wait for an answer.
type countedGets struct {
	jetstream.JetStream
	waiting, most atomic.Int64
}

func counting(t *testing.T, admin jetstream.JetStream, url string) *countedGets {
	t.Helper()
	c := &countedGets{}
	nc := admin.Conn()
	sub, err := nc.Subscribe("counted.API.>", func(m *nats.Msg) {
		subject := "$JS." + strings.TrimPrefix(m.Subject, "counted.")
		if !strings.Contains(subject, "MSG.GET") {
			_ = nc.PublishRequest(subject, m.Reply, m.Data)
			return
		}
		c.most.Store(max(c.most.Load(), c.waiting.Add(1)))
		inbox := nc.NewInbox()
		answer, err := nc.Subscribe(inbox, func(a *nats.Msg) {
			c.waiting.Add(-1)
			_ = m.Respond(a.Data)
		})
		if err == nil {
			_ = answer.AutoUnsubscribe(1)
			_ = nc.PublishRequest(subject, inbox, m.Data)
		}
	})
	must(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	c.JetStream, err = jetstream.NewWithAPIPrefix(connect(t, url).Conn(), "counted.API")
	must(t, err)
	return c
}

// TestCountsWithAFilterAreRare: while the server counts with a filter it does nothing else with the stream. So there is
// no count right after a list, and the pause after each one grows with the time it took.
func TestCountsWithAFilterAreRare(t *testing.T) {
	t.Parallel()                        // it waits
	const took = 900 * time.Millisecond // longer than resendAfter
	srv := natstest.Start(t)
	admin := connect(t, srv.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "in.k", 1)
	put(t, kv, "in.still", 1) // proves that the stream is the same, so that sessions go on without a list
	counts := make(chan time.Time, 1000)
	js := relayed(t, srv, func(m *nats.Msg, handOn func()) {
		if !strings.Contains(string(m.Data), "subjects_filter") {
			handOn()
			return
		}
		counts <- time.Now()
		time.AfterFunc(took, handOn)
	})
	r := start(t, js, Config{Bucket: "b", Filter: "in.*", CompareInterval: 24 * time.Hour}).synced(t)
	r.follows(t, kv, "in.k", 2, prompt)
	ended := time.Now()
	resumes := r.Status().Resumes
	deleteConsumers(t, admin)
	eventually(t, 5*time.Second, "compared", func() bool { return r.Status().Compares == 1 })
	for i := range 5 { // sessions end, and the pause goes on
		deleteConsumers(t, admin)
		r.follows(t, kv, "in.k", 10+i, prompt)
	}
	pass(took)
	if n := r.Status().Resumes; n < 6 {
		t.Fatalf("%d sessions went on without a list, want 6: this test has lost its subject", n)
	}
	first := <-counts
	if resumes == 1 && first.Before(ended) { // else the machine stalled, and the watch has gone on before
		t.Error("a count right after the list")
	}
	for len(counts) > 0 {
		if next := <-counts; next.Sub(first) < countRest*took {
			t.Errorf("another count %v after one that took %v", next.Sub(first), took)
		} else {
			first = next
		}
	}
}

// TestACountThatIsCutShortRestsTheServer, too: it is still busy with it.
func TestACountThatIsCutShortRestsTheServer(t *testing.T) {
	t.Parallel() // it waits
	srv := natstest.Start(t)
	admin := connect(t, srv.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "in.k", 1)
	counts := make(chan time.Time, 1000)
	js := relay(t, srv, func(m *nats.Msg) (isCount bool) {
		if isCount = strings.Contains(string(m.Data), "subjects_filter"); isCount {
			counts <- time.Now()
		}
		return isCount
	})
	r := start(t, js, Config{Bucket: "b", Filter: "in.*", CompareInterval: 100 * time.Millisecond}).synced(t)
	first := <-counts
	pass(300 * time.Millisecond)
	resumes := r.Status().Resumes
	cut := time.Now() // at the latest: deleting them takes a while
	deleteConsumers(t, admin)
	eventually(t, prompt, "the session ends", func() bool { return r.Status().Resumes > resumes })
	second := <-counts
	if pause := second.Sub(cut); pause < countRest*cut.Sub(first)*9/10 {
		t.Errorf("another count %v after one that was cut short after %v", pause, cut.Sub(first))
	}
}

// TestOneSlowCountDelaysNothing: the server, or the machine, was busy with something else.
func TestOneSlowCountDelaysNothing(t *testing.T) {
	for filter, took := range map[string]time.Duration{
		"":     600 * time.Millisecond, // shorter than resendAfter
		"in.*": 2 * time.Second,
	} {
		t.Run("filter "+filter, func(t *testing.T) {
			t.Parallel() // it waits
			srv := natstest.Start(t)
			admin := connect(t, srv.URL())
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "in.k", 1)
			var slow atomic.Bool              // the next count is
			var answered, after atomic.Uint64 // counts that were slow, and those asked for after them
			js := relayed(t, srv, func(m *nats.Msg, handOn func()) {
				isCount := strings.Contains(m.Subject, "STREAM.INFO") &&
					(filter == "" || strings.Contains(string(m.Data), "subjects_filter"))
				if isCount && slow.CompareAndSwap(true, false) {
					time.AfterFunc(took, func() { handOn(); answered.Add(1) })
					return
				}
				if isCount && answered.Load() > 0 {
					after.Add(1)
				}
				handOn()
			})
			const interval = 300 * time.Millisecond
			r := start(t, js, Config{Bucket: "b", Filter: filter, CompareInterval: interval}).synced(t)
			eventually(t, 10*time.Second, "compared", func() bool { return r.Status().Compares > 0 })
			slow.Store(true)
			eventually(t, 20*time.Second, "a count was slow", func() bool { return answered.Load() > 0 })
			// The pause is as long as the count, or ten times as long as the one before it, which was quick.
			eventually(t, countRest*took/2, "another count", func() bool { return after.Load() > 0 })
			stream, err := admin.Stream(t.Context(), "KV_b")
			must(t, err)
			must(t, stream.Purge(t.Context()))
			eventually(t, 30*time.Second, "the key that vanished", func() bool { return r.get("in.k") == nil })
		})
	}
}

func TestSlowCountsWithAFilterRestTheServer(t *testing.T) {
	const fast, slow = 10 * time.Millisecond, 600 * time.Millisecond
	now := time.Now()
	var p counted
	for i, step := range []struct {
		took     time.Duration
		filtered bool
		want     time.Duration
	}{
		{slow, true, countRest * slow}, {fast, true, countRest * fast}, {slow, true, countRest * fast},
		{slow, true, countRest * slow}, {fast, true, countRest * fast},
		{slow, false, slow}, {slow, true, countRest * fast}, // another count says nothing of those with a filter
	} {
		p.rest(now, step.took, step.filtered)
		if got := p.notBefore.Sub(now); got != step.want {
			t.Errorf("step %d: the next count after %v, want %v", i, got, step.want)
		}
	}
}

// TestWithoutThePermissionToDeleteConsumersNothingIsWrong: a reader with it could delete the consumers of others. The
// server drops each consumer when it was idle for half a minute.
func TestWithoutThePermissionToDeleteConsumersNothingIsWrong(t *testing.T) {
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "reader", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Allow: []string{
					"$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b",
					"$JS.API.CONSUMER.CREATE.KV_b.>", "$JS.API.CONSUMER.MSG.NEXT.KV_b.*",
				},
			}}},
		}
	}))
	admin := connect(t, srv.URL(), nats.UserInfo("admin", "x"))
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	js := connect(t, srv.URL(), nats.UserInfo("reader", "x"), unheard)
	var o told
	r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
	r.follows(t, kv, "k", 1, prompt)
	must(t, js.Conn().ForceReconnect())
	r.follows(t, kv, "k", 2, prompt)
	pass(2 * heartbeat)
	if err := r.Status().Err; err != nil {
		t.Errorf("degraded: %v", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.errs {
		if err != nil && strings.Contains(err.Error(), "CONSUMER.DELETE") {
			t.Errorf("told of %v", err)
		}
	}
	stream, err := admin.Stream(t.Context(), "KV_b")
	must(t, err)
	left := 0
	for info := range stream.ListConsumers(t.Context()).Info() {
		left++
		if idle := info.Config.InactiveThreshold; idle != 30*time.Second || info.Config.Durable != "" {
			t.Errorf("consumer %s is dropped after %v, durable %q", info.Name, idle, info.Config.Durable)
		}
	}
	if left < 2 {
		t.Errorf("%d consumers: the one before the reconnect was deleted", left)
	}
}

// TestMissingPermissionToReadMessagesIsNamed: it is needed for the first time when tombstones have expired.
func TestMissingPermissionToReadMessagesIsNamed(t *testing.T) {
	t.Parallel() // it waits
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "reader", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Deny: []string{"$JS.API.STREAM.MSG.GET.KV_b"},
			}}},
		}
	}))
	admin := connect(t, srv.URL(), nats.UserInfo("admin", "x"))
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
	var o told
	// The bucket is empty when the list is read, so the watch needs no message to know the stream again.
	start(t, connect(t, srv.URL(), nats.UserInfo("reader", "x")), Config{
		Bucket: "b", CompareInterval: 200 * time.Millisecond, OnError: o.add,
	}).synced(t)
	put(t, kv, "k", 1)
	_, err := admin.PublishMsg(t.Context(), &nats.Msg{
		Subject: "$KV.b.k", Header: nats.Header{operationHeader: {"DEL"}, ttlHeader: {"1s"}},
	})
	must(t, err)
	o.of(t, `"b"`, "$JS.API.STREAM.MSG.GET.KV_b", "grant")
}
