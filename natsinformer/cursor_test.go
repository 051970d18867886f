package natsinformer

import (
	"context"
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

func TestWaitCursorReadsOwnWritesOfHotKeys(t *testing.T) { waitCursorOfHotKeys(t, soak(300)) }

func TestSoakWaitCursorReadsOwnWritesOfHotKeys(t *testing.T) { waitCursorOfHotKeys(t, soak(1500)) }

// waitCursorOfHotKeys: under load, with keys written again all the time, the cursor claims only what the store has,
// and catches up when the load ends or pauses.
func waitCursorOfHotKeys(t *testing.T, writes int) {
	for _, filter := range []string{"", "h.>"} {
		t.Run("filter "+filter, func(t *testing.T) {
			server := natstest.Start(t)
			js := connect(t, server.URL())
			bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.MemoryStorage})
			r := start(t, js, Config{Bucket: "b", Filter: filter}).synced(t)
			clock := startServed(t)
			defer clock.stop()
			var wg sync.WaitGroup
			var early, stuck atomic.Int64
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
						began := clock.now()
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						err = r.WaitCursor(ctx, ack.Seq)
						cancel()
						if err != nil || clock.now()-began > 5*time.Second {
							stuck.Add(1)
							return
						}
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
			if early.Load() > 0 || stuck.Load() > 0 {
				t.Errorf("the cursor claimed too much %d times, and was stuck %d times", early.Load(), stuck.Load())
			}
		})
	}
}

// TestCursorPassesGapsWithinMilliseconds: sequences outside the filter must not delay a wait for one's own write until
// the next heartbeat. The limit is on the median: the machine may be busy.
func TestCursorPassesGapsWithinMilliseconds(t *testing.T) {
	js := connect(t, natstest.Start(t).URL())
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	r := start(t, js, Config{Bucket: "b", Filter: "in.*"}).synced(t)
	var took []time.Duration
	clock := startServed(t)
	defer clock.stop()
	for n := range 51 {
		put(t, kv, "out.k", n)
		revision := put(t, kv, "in.k", n)
		began := clock.now()
		within(t, prompt, func(ctx context.Context) error {
			err := r.WaitCursor(ctx, revision)
			took = append(took, clock.now()-began)
			return err
		})
		if !r.has("in.k", n) {
			t.Fatalf("at cursor %d, in.k is not up to date", revision)
		}
	}
	if m := median(took); m > heartbeat/5 {
		t.Errorf("the median is %s", m)
	} else {
		t.Logf("median %s", m)
	}
}
