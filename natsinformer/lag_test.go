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
		level := func(limit time.Duration, what string) {
			t.Helper()
			within(t, limit, what, func() bool {
				st := informer.Status()
				return st.Behind == 0 && st.Lag == 0 && st.Err == nil
			})
		}
		level(atOnce, "the first list is the end")
		const slept = 10 * time.Second
		put(t, kv, "second", slow)
		time.Sleep(slept)
		if st := informer.Status(); st.Behind != 1 || st.Lag != slept {
			t.Errorf("while it decodes: %+v", st)
		}
		close(leave)
		level(atOnce, "it has caught up")
		server.Stop()
		time.Sleep(slept)
		if st := informer.Status(); st.Behind != 0 || st.Err == nil || st.Lag > slept || st.Lag < slept-answerPatience {
			t.Errorf("while it cannot watch: %+v", st)
		}
		must(t, server.Start())
		level(prompt, "it watches again")
	})
}
