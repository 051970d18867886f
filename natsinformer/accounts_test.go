package natsinformer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// twoAccounts has the bucket in one account and the informer in another one, as the package documentation says.
// prefix is under which the second account has the JetStream API of the first.
func twoAccounts(responseType, prefix string) natstest.Option {
	return natstest.WithConfigText(fmt.Sprintf(`accounts {
		DATA {
			jetstream: enabled
			users: [{user: data, password: data}]
			exports: [
				{service: "$JS.API.>" %s}
				{service: "$KV.b.>"}
			]
		}
		APP {
			users: [{user: app, password: app}]
			imports: [
				{service: {account: DATA, subject: "$JS.API.>"}, to: "%s.>"}
				{service: {account: DATA, subject: "$KV.b.>"}}
			]
		}
	}`, responseType, prefix))
}

// as is the URL of a server for a user.
func as(server *natstest.Server, user string) string {
	return strings.Replace(server.URL(), "://", "://"+user+":"+user+"@", 1)
}

// imported is a JetStream context of an account that imports the API under a prefix.
func imported(t *testing.T, server *natstest.Server, prefix string) jetstream.JetStream {
	t.Helper()
	nc, _ := natstest.Connect(t, as(server, "app"))
	js, err := jetstream.NewWithAPIPrefix(nc, prefix)
	must(t, err)
	return js
}

func TestABucketOfAnotherAccountIsWatched(t *testing.T) {
	for _, prefix := range []string{"$JS.API", "JS.data.API"} {
		subtest(t, prefix, func(t *testing.T) {
			server := natstest.Start(t, twoAccounts(", response_type: stream", prefix))
			kv := bucket(t, connect(t, as(server, "data")), jetstream.KeyValueConfig{Bucket: "b"})
			const keys = 10_000
			for i := range keys {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			js := imported(t, server, prefix)
			var o told
			r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
			if n := len(r.GetStore().ListKeys()); n != keys {
				t.Fatalf("synced with %d of %d keys", n, keys)
			}
			r.follows(t, kv, "k1", -7+1000, prompt)
			must(t, kv.Delete(t.Context(), "k2"))
			within(t, prompt, "the delete is told", func() bool { return r.seen.last("k2").deletion.Evidenced })
			time.Sleep(time.Hour)
			r.follows(t, kv, "k3", 1001, prompt)
			must(t, js.Conn().Publish("$KV.b.k4", doc(1002)))
			within(t, prompt, "what the other account writes is read", func() bool { return r.has("k4", 1002) })
			if st := r.Status(); len(o.all()) != 0 || st.Lists != 1 {
				t.Errorf("%+v, told of %v", st, o.all())
			}
			leaveNothing(t, js, "b", r)
		})
	}
}

// With the usual response type the server passes on the first message of each answer only.
func TestAnExportOfOneAnswerEachIsTold(t *testing.T) {
	for _, keys := range []int{0, 1, 2, 3, 100, 10_000} {
		subtest(t, fmt.Sprint(keys, " keys"), func(t *testing.T) {
			server := natstest.Start(t, twoAccounts("", "$JS.API"))
			kv := bucket(t, connect(t, as(server, "data")), jetstream.KeyValueConfig{Bucket: "b"})
			for i := range keys {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			var o told
			r := start(t, imported(t, server, "$JS.API"), Config{Bucket: "b", OnError: o.add})
			within(t, prompt, "it is told", func() bool { return r.Status().Err != nil })
			for _, part := range []string{"asked for", "response_type: stream", "export", `"b"`} {
				if told := r.Status().Err.Error(); !strings.Contains(told, part) {
					t.Errorf("%q does not say %q", told, part)
				}
			}
			time.Sleep(time.Minute)
			if r.HasSynced() {
				t.Error("it has synced")
			}
			if told := o.all(); len(told) > 3 {
				t.Errorf("told %d times, as of %v", len(told), told[:3])
			}
		})
	}
}

// cropping is a connection on which only so many replies come to a request for messages while crop says so.
func cropping(t *testing.T, s *natstest.Server, replies int, crop *atomic.Bool) jetstream.JetStream {
	t.Helper()
	asks, answers, left := natstest.To(nextRequests), natstest.AnswersTo(nextRequests), 0
	return tampered(t, s, func(m *natstest.Message) natstest.Fate {
		switch {
		case asks(m):
			left = max(left, 0) + replies
		case answers(m), m.Direction == natstest.FromServer && strings.HasPrefix(m.Subject, "$KV."):
			left--
			return natstest.Fate{Lost: crop.Load() && left < 0}
		}
		return natstest.Fate{}
	})
}

// The export may become so while the informer watches.
func TestAWatchOfOneReplyEachIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		put(t, kv, "same", 1)
		var crop atomic.Bool
		var o told
		r := start(t, cropping(t, server, 1, &crop), Config{Bucket: "b", OnError: o.add}).synced(t)
		r.follows(t, kv, "k", 2, prompt)
		time.Sleep(time.Minute)
		crop.Store(true)
		deleteConsumers(t, admin)
		within(t, 3*prompt, "it is told", func() bool { return r.Status().Err != nil })
		if err := r.Status().Err; !strings.Contains(err.Error(), "response_type: stream") {
			t.Errorf("told of %v", err)
		}
		time.Sleep(time.Minute)
		if told := o.all(); len(told) > 5 {
			t.Errorf("told %d times: %v", len(told), told)
		}
		crop.Store(false)
		within(t, 2*prompt, "it is over", func() bool { return r.Status().Err == nil })
		r.follows(t, kv, "k", 3, prompt)
	})
}

// A list that begins and does not go on is told, with how far it came, whatever the reason.
func TestAListThatStallsIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 100 {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		var crop atomic.Bool
		crop.Store(true)
		r := start(t, cropping(t, server, 30, &crop), Config{Bucket: "b"})
		within(t, 4*time.Second, "it is told", func() bool { return r.Status().Err != nil })
		for _, part := range []string{"asked for", "came", `bucket "b"`} {
			if err := r.Status().Err; !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		time.Sleep(time.Minute)
		if err := r.Status().Err; err == nil || r.HasSynced() {
			t.Errorf("after a minute: %v", err)
		}
		crop.Store(false)
		r.synced(t)
		within(t, prompt, "it is over", func() bool { return r.Status().Err == nil })
	})
}

// A watch that has just begun and falls silent once looks like one of one reply each, too: whoever cuts the network,
// that is no reason to look for an export.
func TestAWatchThatFallsSilentOnceIsNotTheExports(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		put(t, kv, "same", 1)
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		for after := time.Duration(0); after < 2*time.Second; after += 100 * time.Millisecond {
			deleteConsumers(t, admin) // so that another watch begins
			time.Sleep(after)
			proxy.Blackhole(natstest.FromServer)
			time.Sleep(3 * time.Second)
			proxy.Resume()
			time.Sleep(time.Minute)
		}
		if err := r.Status().Err; err != nil {
			t.Error(err)
		}
		told := fmt.Sprint(o.all())
		if !strings.Contains(told, "no message and no heartbeat") {
			t.Errorf("told of %s", told)
		}
		if strings.Contains(told, "response_type") {
			t.Errorf("it blames an export: %s", told)
		}
	})
}
