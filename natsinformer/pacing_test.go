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
	natstest.Test(t, func(t *testing.T) {
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
		const interval = 200 * time.Millisecond
		r := start(t, js, Config{Bucket: "b", CompareInterval: interval}).synced(t)
		natstest.Eventually(t, "compared", func() bool { return r.Status().Compares >= 4 })
		if lists := r.Status().Lists; lists != 2 {
			t.Errorf("%d lists", lists)
		}
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.gone")))
		within(t, prompt, "a key that vanished is still found", func() bool { return r.get("gone") == nil })
	})
}

// TestManyExpiredTombstonesCostNoList: they are all asked for, however many they are, but only a few at a time.
func TestManyExpiredTombstonesCostNoList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
		put(t, kv, "stays", 1)
		var asked, waiting, most atomic.Int64
		request, answer := natstest.To(getRequests), natstest.AnswersTo(getRequests)
		js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
			switch {
			case request(m):
				asked.Add(1)
				most.Store(max(most.Load(), waiting.Add(1)))
			case answer(m):
				waiting.Add(-1)
			}
			return natstest.Fate{}
		})
		r := start(t, js, Config{Bucket: "b", CompareInterval: 2 * time.Second}).synced(t)
		const many = 300
		for n := range many {
			_, err := admin.PublishMsgAsync(marker(fmt.Sprint("k", n)))
			must(t, err)
		}
		<-admin.PublishAsyncComplete()
		time.Sleep(5 * time.Second)
		if st := r.Status(); st.Lists != 1 || st.Compares < 2 {
			t.Errorf("%d lists, and %d comparisons", st.Lists, st.Compares)
		}
		if asked.Load() < many || most.Load() > tombWindow {
			t.Errorf("%d messages were asked for, %d at once", asked.Load(), most.Load())
		}
	})
}

// isCount reports whether a message asks the server to count with a filter.
func isCount(m *natstest.Message) bool {
	return natstest.To(infoRequests)(m) && strings.Contains(string(m.Data), "subjects_filter")
}

// TestCountsWithAFilterAreRare: while the server counts with a filter it does nothing else with the stream. So there is
// no count right after a list, and the pause after each one grows with the time it took.
func TestCountsWithAFilterAreRare(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const took = 900 * time.Millisecond // longer than resendAfter
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "in.k", 1)
		put(t, kv, "in.still", 1) // proves that the stream is the same, so that sessions go on without a list
		counts := make(chan time.Time, 1000)
		js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
			if !isCount(m) {
				return natstest.Fate{}
			}
			counts <- time.Now()
			return natstest.Fate{Late: took}
		})
		r := start(t, js, Config{Bucket: "b", Filter: "in.*", CompareInterval: 24 * time.Hour}).synced(t)
		r.follows(t, kv, "in.k", 2, atOnce)
		time.Sleep(time.Hour)
		if len(counts) != 0 {
			t.Error("a count right after the list")
		}
		deleteConsumers(t, admin)
		within(t, took, "compared", func() bool { return r.Status().Compares == 1 })
		for i := range 5 { // sessions end, and the pause goes on
			deleteConsumers(t, admin)
			r.follows(t, kv, "in.k", 10+i, prompt)
		}
		if st := r.Status(); st.Resumes != 7 || st.Lists != 1 {
			t.Fatalf("%d sessions went on without a list, want 7: this test has lost its subject", st.Resumes)
		}
		counted := <-counts
		time.Sleep(time.Until(counted.Add(took + countRest*took)))
		if len(counts) != 0 {
			t.Errorf("another count %v after one that took %v", (<-counts).Sub(counted), took)
		}
		time.Sleep(time.Nanosecond)
		if len(counts) != 1 {
			t.Errorf("%d counts after the pause", len(counts))
		}
	})
}

// TestACountThatIsCutShortRestsTheServer, too: it is still busy with it.
func TestACountThatIsCutShortRestsTheServer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "in.k", 1)
		counts := make(chan time.Time, 1000)
		js := lossy(t, server, infoRequests, func(m *natstest.Message) bool {
			if isCount(m) {
				counts <- time.Now()
			}
			return isCount(m)
		})
		start(t, js, Config{Bucket: "b", Filter: "in.*", CompareInterval: 100 * time.Millisecond}).synced(t)
		first := <-counts
		const took = 300 * time.Millisecond
		time.Sleep(took)
		deleteConsumers(t, admin)
		if pause := (<-counts).Sub(first.Add(took)); pause != countRest*took {
			t.Errorf("another count %v after one that was cut short after %v", pause, took)
		}
	})
}

// TestOneSlowCountDelaysNothing: the server, or the machine, was busy with something else.
func TestOneSlowCountDelaysNothing(t *testing.T) {
	for filter, took := range map[string]time.Duration{
		"":     600 * time.Millisecond, // shorter than resendAfter
		"in.*": 2 * time.Second,
	} {
		subtest(t, "filter "+filter, func(t *testing.T) {
			server := natstest.Start(t)
			admin := connect(t, server.URL())
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "in.k", 1)
			var slow atomic.Bool // the next count is
			counts := make(chan time.Time, 1000)
			to := natstest.To(infoRequests)
			js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
				if !to(m) || filter != "" && !isCount(m) {
					return natstest.Fate{}
				}
				counts <- time.Now()
				if slow.CompareAndSwap(true, false) {
					return natstest.Fate{Late: took}
				}
				return natstest.Fate{Late: time.Millisecond}
			})
			const interval = 300 * time.Millisecond
			r := start(t, js, Config{Bucket: "b", Filter: filter, CompareInterval: interval}).synced(t)
			time.Sleep(5 * time.Second)
			if r.Status().Compares == 0 {
				t.Error("nothing was compared")
			}
			slow.Store(true)
			for len(counts) > 0 {
				<-counts
			}
			first, second := <-counts, <-counts
			// The pause is as long as the count, or ten times as long as the one before it, which was quick.
			if pause := second.Sub(first.Add(took)); pause > max(took, interval*11/10) {
				t.Errorf("another count %v after one that took %v", pause, took)
			}
			stream, err := admin.Stream(t.Context(), "KV_b")
			must(t, err)
			must(t, stream.Purge(t.Context()))
			within(t, prompt, "the key that vanished", func() bool { return r.get("in.k") == nil })
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
	natstest.Test(t, func(t *testing.T) {
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
		r.follows(t, kv, "k", 1, atOnce)
		must(t, js.Conn().ForceReconnect())
		r.follows(t, kv, "k", 2, atOnce)
		time.Sleep(2 * heartbeat)
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
	})
}

// TestMissingPermissionToReadMessagesIsNamed: it is needed for the first time when tombstones have expired.
func TestMissingPermissionToReadMessagesIsNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		_, err := admin.PublishMsg(t.Context(), marker("k"))
		must(t, err)
		o.of(t, `"b"`, "$JS.API.STREAM.MSG.GET.KV_b", "grant")
	})
}
