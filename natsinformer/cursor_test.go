package natsinformer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWaitCursorReadsOwnWritesOfHotKeys: under load, with keys written again all the time, the cursor claims only what
// the store has, and catches up when the load ends or pauses.
func TestWaitCursorReadsOwnWritesOfHotKeys(t *testing.T) {
	writes := soak(300)
	for _, filter := range []string{"", "h.>"} {
		subtest(t, "filter "+filter, func(t *testing.T) {
			server := natstest.Start(t)
			js := connect(t, server.URL())
			bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.MemoryStorage})
			r := start(t, js, Config{Bucket: "b", Filter: filter}).synced(t)
			var wg sync.WaitGroup
			var early, longest atomic.Int64
			for w := range 6 {
				nc, _ := natstest.Connect(t, server.URL())
				wg.Go(func() {
					for n := range writes {
						key := fmt.Sprintf("h.k%d", rand.IntN(3))
						if w < 2 {
							for range 5 {
								_ = nc.Publish("$KV.b."+[]string{"h.x", "o.y", "o.z", key}[rand.IntN(4)], doc(n))
							}
						}
						m, err := nc.Request("$KV.b."+key, doc(n), 5*time.Second)
						if err != nil {
							t.Error(err)
							return
						}
						var ack struct{ Seq uint64 }
						_ = json.Unmarshal(m.Data, &ack)
						began := time.Now()
						must(t, r.WaitCursor(t.Context(), ack.Seq))
						longest.Store(max(longest.Load(), int64(time.Since(began))))
						var at uint64
						if o := r.get(key); o != nil {
							at, _ = strconv.ParseUint(o.ResourceVersion, 10, 64)
						}
						if at < ack.Seq {
							early.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if early.Load() > 0 {
				t.Errorf("the cursor claimed too much %d times", early.Load())
			}
			if took := time.Duration(longest.Load()); took > probeExpires {
				t.Errorf("a wait for the cursor took %v", took)
			}
		})
	}
}

// TestCursorPassesGapsWithinMilliseconds: sequences outside the filter must not delay a wait for one's own write until
// the next heartbeat.
func TestCursorPassesGapsWithinMilliseconds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		r := start(t, js, Config{Bucket: "b", Filter: "in.*"}).synced(t)
		for n := range 51 {
			put(t, kv, "out.k", n)
			revision := put(t, kv, "in.k", n)
			began := time.Now()
			must(t, r.WaitCursor(t.Context(), revision))
			if took := time.Since(began); took > probeExpires {
				t.Errorf("it took %v", took)
			}
			t.Log(time.Since(began))
			if !r.has("in.k", n) {
				t.Fatalf("at cursor %d, in.k is not up to date", revision)
			}
		}
	})
}
