package natsinformer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// load is a bucket with keys that exist throughout, and writers that rewrite them as fast as they can.
type load struct {
	js   jetstream.JetStream
	keys []string
	stop func()
}

const (
	loadKeys    = 1000
	loadWriters = 4
)

// startLoad fills the bucket and keeps writing until the test ends or stop is called. Half of the keys are below "in.",
// so that a filter leaves foreign sequences between its own.
func startLoad(t *testing.T, url string, replicas int) load {
	t.Helper()
	nc, js := natstest.Connect(t, url)
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Replicas: replicas})
	l := load{js: js}
	for i := range loadKeys {
		l.keys = append(l.keys, fmt.Sprintf("%s.%d", []string{"in", "out"}[i%2], i))
	}
	for _, key := range l.keys {
		must(t, nc.Publish("$KV.b."+key, doc(0)))
	}
	natstest.Eventually(t, "the bucket is filled", func() bool {
		st, err := kv.Status(t.Context())
		return err == nil && st.Values() == loadKeys
	})
	l.stop = l.write(t, url, func(nc *nats.Conn, n int) {
		for range 31 { // many under way at a time, but no backlog that only grows
			_ = nc.Publish("$KV.b."+l.keys[rand.IntN(loadKeys)], doc(n))
		}
		_, _ = nc.Request("$KV.b."+l.keys[rand.IntN(loadKeys)], doc(n), time.Second)
	})
	return l
}

// write runs writers over their own connections until the test ends or stop is called. Every now and then they let time
// pass, in which the informer finds an end.
func (l load) write(t *testing.T, url string, one func(nc *nats.Conn, n int)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range loadWriters {
		nc, _ := natstest.Connect(t, url)
		wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				one(nc, n)
				if n%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// listExactly starts informers one after the other and looks, at the very moment they claim to have synced, for keys
// that existed throughout.
func (l load) listExactly(t *testing.T, filter string, rounds int) {
	t.Helper()
	for round := range rounds {
		r := start(t, l.js, Config{Bucket: "b", Filter: filter})
		r.synced(t)
		missing := 0
		for i, key := range l.keys {
			if (filter == "" || i%2 == 0) && r.get(key) == nil {
				missing++
			}
		}
		r.stop()
		if missing > 0 {
			t.Fatalf("list %d: HasSynced with %d keys missing that existed throughout", round, missing)
		}
	}
}

func TestHasSyncedMeansNoKeyIsMissing(t *testing.T) {
	for _, filter := range []string{"", "in.>"} {
		subtest(t, "filter "+filter, func(t *testing.T) {
			startLoad(t, natstest.Start(t).URL(), 1).listExactly(t, filter, soak(3))
		})
	}
}

func TestHasSyncedMeansNoKeyIsMissingWhileOthersComeAndGo(t *testing.T) {
	for _, filter := range []string{"", "in.>"} {
		subtest(t, "filter "+filter, func(t *testing.T) {
			server := natstest.Start(t)
			l := startLoad(t, server.URL(), 1)
			l.write(t, server.URL(), comeAndGo)
			l.listExactly(t, filter, soak(2))
		})
	}
}

func comeAndGo(nc *nats.Conn, n int) {
	key := fmt.Sprintf("$KV.b.in.passing%d", rand.IntN(500))
	switch n % 4 {
	case 0, 1:
		_, _ = nc.Request(key, doc(n), time.Second)
	case 2:
		_, _ = nc.RequestMsg(&nats.Msg{Subject: key, Header: nats.Header{operationHeader: {"DEL"}}}, time.Second)
	case 3: // through the API, which leaves no trace
		_, _ = nc.Request("$JS.API.STREAM.PURGE.KV_b", []byte(`{"filter":"`+key+`"}`), time.Second)
	}
}
