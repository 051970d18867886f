package natsinformer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// answersNow waits until the server answers JetStream requests of the connection: from then on recovery must be prompt.
func answersNow(t *testing.T, js jetstream.JetStream, bucket string) {
	t.Helper()
	natstest.Eventually(t, "the server answers again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := js.Stream(ctx, "KV_"+bucket)
		return err == nil
	})
}

// changing writes counted values to a few keys, one each millisecond, until stop is called. Writes that the server did
// not confirm are repeated.
func changing(t *testing.T, kv jetstream.KeyValue) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			write, done := context.WithTimeout(context.Background(), 300*time.Millisecond)
			_, _ = kv.Put(write, fmt.Sprint("busy", n%10), doc(n))
			done()
			time.Sleep(time.Millisecond)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// TestRecovery holds promise 2 for each way in which a watch can break: the next change arrives within two seconds of
// the server answering again, nothing is lost, and the revisions of a key never go back.
func TestRecovery(t *testing.T) {
	type world struct {
		server *natstest.Server
		proxy  *natstest.Proxy
		admin  jetstream.JetStream // not through the proxy
		js     jetstream.JetStream // the informer's
	}
	tests := map[string]func(t *testing.T, w world){
		"server restarted": func(t *testing.T, w world) { must(t, w.server.Restart()) },
		"consumer deleted": func(t *testing.T, w world) { deleteConsumers(t, w.admin) },
		"connection cut":   func(t *testing.T, w world) { w.proxy.Cut() },
		"connection refused for a while": func(t *testing.T, w world) {
			w.proxy.Refuse()
			time.Sleep(silence)
			w.proxy.Resume()
		},
		"half-open": func(t *testing.T, w world) {
			w.proxy.Blackhole()
			natstest.Eventually(t, "the client notices", func() bool { return !w.js.Conn().IsConnected() })
			w.proxy.Resume()
		},
		"half-open, only from the server": func(t *testing.T, w world) {
			w.proxy.Blackhole(natstest.FromServer)
			natstest.Eventually(t, "the client notices", func() bool { return !w.js.Conn().IsConnected() })
			w.proxy.Resume()
		},
		"connection forced to reconnect": func(t *testing.T, w world) { must(t, w.js.Conn().ForceReconnect()) },
		"no leader for a while": func(t *testing.T, w world) {
			info := natstest.AnswersTo(infoRequests)
			w.proxy.Tamper(func(m *natstest.Message) natstest.Fate {
				if info(m) {
					m.Data = withCluster(t, m.Data, withoutALeader)
				}
				return natstest.Fate{}
			})
			deleteConsumers(t, w.admin)
			time.Sleep(silence)
			w.proxy.Tamper(nil)
		},
	}
	for name, fault := range tests {
		subtest(t, name, func(t *testing.T) {
			server := natstest.Start(t)
			proxy := natstest.StartProxy(t, server.URL())
			proxy.Delay(2 * time.Millisecond) // so that something is always on its way
			w := world{
				server: server, proxy: proxy, admin: connect(t, server.URL()),
				js: connect(t, proxy.URL(), nats.PingInterval(200*time.Millisecond), nats.MaxPingsOutstanding(2)),
			}
			kv := bucket(t, w.admin, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 100 {
				put(t, kv, fmt.Sprint("quiet", i), i)
			}
			// Without a comparison: after a fault the next one is a list.
			r := start(t, w.js, Config{Bucket: "b", CompareInterval: 24 * time.Hour}).synced(t)
			r.follows(t, kv, "probe", 1, prompt)
			stop := changing(t, kv)
			fault(t, w)
			answersNow(t, w.admin, "b")
			answersNow(t, w.js, "b")
			r.follows(t, kv, "probe", 2, prompt)
			stop()
			r.converges(t, kv, prompt)
			lists := r.Status().Lists
			fault(t, w)
			answersNow(t, w.js, "b")
			r.follows(t, kv, "probe", 3, prompt)
			if more := r.Status().Lists - lists; more != 0 {
				t.Errorf("%d lists more; going on from the cursor would have done", more)
			}
			within(t, prompt, "one consumer", func() bool { return consumers(t, w.admin, "b") == 1 })
			leaveNothing(t, w.admin, "b", r)
			r.seen.inOrder(t)
		})
	}
}

func TestReconnectStormLeavesNothingBehind(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL(), nats.ReconnectWait(time.Millisecond))
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		for i := range 60 {
			before := js.Conn().Stats().Reconnects
			proxy.Cut()
			within(t, prompt, "reconnected", func() bool { return js.Conn().Stats().Reconnects > before })
			if i%10 == 0 {
				r.follows(t, kv, "k", i+1, prompt) // the storm goes on
			}
		}
		r.follows(t, kv, "k", 1000, prompt)
		natstest.Eventually(t, "one consumer is left of the storm", func() bool {
			return consumers(t, admin, "b") == 1
		})
		leaveNothing(t, admin, "b", r) // goleak looks for goroutines
	})
}

func TestSlowHandlerDelaysOnlyItself(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		slow := &slowHandler{release: make(chan struct{})}
		_, err := r.AddEventHandler(slow)
		must(t, err)
		for i := range 300 {
			put(t, kv, fmt.Sprint("k", i%100), i+1)
		}
		r.converges(t, kv, atOnce)
		time.Sleep(time.Minute) // much longer than a silent consumer is believed in
		r.follows(t, kv, "k1", 5000, atOnce)
		close(slow.release)
		within(t, atOnce, "the slow handler gets the last state of each key", func() bool {
			return slow.last("k1").n == 5000
		})
		slow.inOrder(t)
		if n := r.Status().Resumes; n != 1 {
			t.Errorf("the watch has begun %d times", n)
		}
	})
}

type slowHandler struct {
	seen
	release chan struct{}
}

func (s *slowHandler) OnAdd(obj any, initial bool) { <-s.release; s.seen.OnAdd(obj, initial) }
func (s *slowHandler) OnUpdate(old, obj any)       { <-s.release; s.seen.OnUpdate(old, obj) }

func TestTenInformersOnOneBucket(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 100 {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		var all []*running
		for range 10 {
			all = append(all, start(t, js, Config{Bucket: "b"}))
		}
		for _, r := range all {
			r.synced(t)
		}
		must(t, server.Restart())
		answersNow(t, js, "b")
		revision := put(t, kv, "k1", 1000)
		for _, r := range all {
			r.reaches(t, revision, prompt)
			r.converges(t, kv, atOnce)
		}
		within(t, prompt, "a consumer each", func() bool { return consumers(t, js, "b") == len(all) })
		leaveNothing(t, js, "b", all...)
	})
}

func TestStopAtAnyTimeLeavesNothingBehind(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 300 {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		const there, step = 10 * time.Millisecond, 3 * time.Millisecond
		proxy.Delay(there)
		synced := 0
		for after := time.Duration(0); synced < 10; after += step { // before, in and after each request and the list
			r := start(t, js, Config{Bucket: "b"})
			time.Sleep(after)
			if r.HasSynced() {
				synced++
			}
			leaveNothing(t, admin, "b", r)
		}
	})
}

func TestWaitKeyEndsWhenTheKeyVanished(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "anchor", 1)
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		proxy.Refuse()
		revision := put(t, kv, "k", 1)
		must(t, kv.Delete(t.Context(), "k"))
		must(t, kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
		put(t, kv, "other", 1)
		proxy.Resume()
		ctx, cancel := context.WithTimeout(t.Context(), prompt)
		defer cancel()
		must(t, r.WaitKey(ctx, "k", revision))
		if r.get("k") != nil {
			t.Error("it is in the store")
		}
	})
}
