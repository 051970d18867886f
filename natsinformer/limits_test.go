package natsinformer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// The server may allow fewer messages to a pull than the informer asks for.
func TestPullsAskForWhatTheServerAllows(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 100, 4095} {
		for _, keys := range []int{0, 1, 100, 203} {
			subtest(t, fmt.Sprintf("%d messages at a time, %d keys", limit, keys), func(t *testing.T) {
				server := natstest.Start(t, natstest.WithConfigText(
					fmt.Sprintf(`jetstream { limits { max_request_batch: %d } }`, limit)))
				js := connect(t, server.URL())
				kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
				for i := range keys {
					put(t, kv, fmt.Sprint("k", i), i)
				}
				var o told
				r := start(t, js, Config{Bucket: "b", OnError: o.add, CompareInterval: time.Minute})
				within(t, prompt, "it has synced", r.HasSynced)
				if n := len(r.GetStore().ListKeys()); n != keys {
					t.Fatalf("synced with %d of %d keys", n, keys)
				}
				for i := range 30 {
					put(t, kv, fmt.Sprint("k", i), 1000)
				}
				r.follows(t, kv, "k0", 1001, prompt)
				time.Sleep(10 * time.Minute)
				r.follows(t, kv, "k1", 1001, prompt)
				for i := range 50 { // sequences are missing, so the informer asks whether it is at the end
					_, err := kv.PutString(t.Context(), "often", fmt.Sprintf(`{"n":%d}`, i))
					must(t, err)
				}
				last := put(t, kv, "often", 50)
				r.reaches(t, last, prompt)
				if st := r.Status(); st.Err != nil || st.Lists != 1 || len(o.all()) != 0 {
					t.Errorf("%+v, told of %v", st, o.all())
				}
				leaveNothing(t, js, "b", r)
			})
		}
	}
}

// A pull whose messages are all that there were leaves the one behind it without any.
func TestAListEndsWhereAPullEnds(t *testing.T) {
	for _, keys := range []int{pullBatch / 2, pullBatch, 2 * pullBatch} {
		subtest(t, fmt.Sprint(keys, " keys"), func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range keys {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			began := time.Now()
			r := start(t, js, Config{Bucket: "b"}).synced(t)
			if took := time.Since(began); took > 2*listQuiet {
				t.Errorf("the list took %v", took)
			}
			if n := len(r.GetStore().ListKeys()); n != keys {
				t.Errorf("synced with %d of %d keys", n, keys)
			}
		})
	}
}

// An administrator may lower what a consumer that exists allows to a pull.
func TestAPullThatIsRefusedIsMadeSmaller(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		put(t, kv, "same", 1) // proves that the stream is the same
		r := start(t, connect(t, server.URL()), Config{Bucket: "b"}).synced(t)
		r.follows(t, kv, "k", 2, prompt)
		before := r.Status().Resumes
		stream, err := admin.Stream(t.Context(), "KV_b")
		must(t, err)
		for info := range stream.ListConsumers(t.Context()).Info() {
			cfg := info.Config
			cfg.MaxRequestBatch = 3
			_, err := stream.UpdateConsumer(t.Context(), cfg)
			must(t, err)
		}
		time.Sleep(2 * pullExpires) // the pull that was under way ends
		for i := range 20 {
			put(t, kv, fmt.Sprint("k", i), 2)
		}
		r.follows(t, kv, "k", 3, prompt)
		r.converges(t, kv, prompt)
		if st := r.Status(); st.Lists != 1 || st.Err != nil || st.Resumes != before {
			t.Errorf("%+v", st)
		}
	})
}

// A stream may limit how long its consumers may be idle.
func TestConsumersAreAsTheStreamAllows(t *testing.T) {
	for _, c := range []jetstream.StreamConsumerLimits{
		{InactiveThreshold: time.Millisecond}, {InactiveThreshold: time.Second}, {InactiveThreshold: time.Hour},
		{MaxAckPending: 1}, {InactiveThreshold: 29 * time.Second, MaxAckPending: 10},
	} {
		subtest(t, fmt.Sprintf("%v, %d", c.InactiveThreshold, c.MaxAckPending), func(t *testing.T) {
			server := natstest.Start(t)
			js := connect(t, server.URL())
			kv := limited(t, js, func(cfg *jetstream.StreamConfig) { cfg.ConsumerLimits = c })
			for i := range 100 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			var o told
			r := start(t, js, Config{Bucket: "b", OnError: o.add, CompareInterval: time.Minute})
			within(t, prompt, "it has synced", r.HasSynced)
			for range 10 {
				time.Sleep(time.Minute)
				r.follows(t, kv, "k1", int(time.Now().Unix()%100000), atOnce+time.Millisecond)
			}
			if st := r.Status(); st.Lists != 1 || len(o.all()) != 0 {
				t.Errorf("%+v, told of %v", st, o.all())
			}
		})
	}
}

// limited makes a bucket whose stream is as change says.
func limited(t *testing.T, js jetstream.JetStream, change func(*jetstream.StreamConfig)) jetstream.KeyValue {
	t.Helper()
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	s, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	cfg := s.CachedInfo().Config
	must(t, js.DeleteStream(t.Context(), "KV_b"))
	time.Sleep(time.Nanosecond)
	change(&cfg)
	_, err = js.CreateStream(t.Context(), cfg)
	must(t, err)
	return kv
}

// A stream may allow one consumer only: then the one before has to go first.
func TestAStreamForOneConsumerIsWatchedThroughInterruptions(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := limited(t, admin, func(cfg *jetstream.StreamConfig) { cfg.MaxConsumers = 1 })
		put(t, kv, "k", 1)
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		for i := range 3 {
			proxy.Cut()
			r.follows(t, kv, "k", 2+i, prompt)
		}
		if told := o.all(); len(told) != 0 {
			t.Errorf("told of %v", told)
		}
		leaveNothing(t, admin, "b", r)
	})
}

func TestALimitOfConsumersIsToldWithWhatToDo(t *testing.T) {
	account := `accounts { A {
		users: [{user: a, password: a}], jetstream { max_consumers: 1, max_mem: 1G, max_disk: 1G }
	} }`
	for name, c := range map[string]struct {
		config string
		limit  int
	}{"of the stream": {"", 1}, "of the account": {account, -1}} {
		subtest(t, name, func(t *testing.T) {
			server := natstest.Start(t, natstest.WithConfigText(c.config))
			url := server.URL()
			if c.config != "" {
				url = strings.Replace(url, "://", "://a:a@", 1)
			}
			js := connect(t, url)
			kv := limited(t, js, func(cfg *jetstream.StreamConfig) { cfg.MaxConsumers = c.limit })
			put(t, kv, "k", 1)
			one := start(t, js, Config{Bucket: "b"}).synced(t)
			one.follows(t, kv, "k", 2, prompt) // it has its consumer
			two := start(t, js, Config{Bucket: "b"})
			within(t, prompt, "it is told", func() bool { return two.Status().Err != nil })
			for _, part := range []string{
				"maximum consumers limit", "max_consumers", "KV_b", "one consumer for each informer",
			} {
				if told := two.Status().Err.Error(); !strings.Contains(told, part) {
					t.Errorf("%q does not say %q", told, part)
				}
			}
			one.stop()
			within(t, prompt, "the other one follows", func() bool { return two.HasSynced() && two.Status().Err == nil })
		})
	}
}
