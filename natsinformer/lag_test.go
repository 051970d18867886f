package natsinformer

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestStatusTellsHowFarTheStoreIsBehind: while an entry is decoded, and while the server is away; and not for longer.
func TestStatusTellsHowFarTheStoreIsBehind(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "things"})
		put(t, kv, "first", 1)
		const slow = 7
		leave := make(chan struct{})
		informer := start(t, js, Config{Bucket: "things", Decode: func(e Entry) (runtime.Object, error) {
			object, err := decodeThing(e)
			if err == nil && object.(*thing).N == slow {
				<-leave
			}
			return object, err
		}}).synced(t)
		level := func(what string) {
			t.Helper()
			natstest.Eventually(t, what, func() bool { st := informer.Status(); return st.Behind == 0 && st.Lag == 0 && st.Err == nil })
		}
		level("the first list is the end")
		put(t, kv, "second", slow)
		natstest.Eventually(t, "it is behind, for some time", func() bool {
			st := informer.Status()
			return st.Behind == 1 && st.Lag > 50*time.Millisecond && st.Lag < time.Minute
		})
		close(leave)
		level("it has caught up")
		server.Stop()
		natstest.Eventually(t, "it cannot watch, and its state gets older", func() bool {
			st := informer.Status()
			return st.Behind == 0 && st.Err != nil && st.Lag > 50*time.Millisecond && st.Lag < time.Minute
		})
		must(t, server.Start())
		level("it watches again")
	})
}
