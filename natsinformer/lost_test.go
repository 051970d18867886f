package natsinformer

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// thief swallows one message that a consumer delivers. Until the message of a later key has come, it also swallows the
// consumer's status messages: then only the numbers of the messages show that one is missing.
type thief struct {
	mu         sync.Mutex
	steal      string // the key of the message
	until      string // the later key, "" for none
	stolen     int
	concealing bool
}

func (th *thief) deliver(m *nats.Msg) bool {
	th.mu.Lock()
	defer th.mu.Unlock()
	switch m.Subject {
	case "$KV.b." + th.steal:
		if th.stolen == 0 {
			th.stolen++
			th.concealing = th.until != ""
			return false
		}
	case "$KV.b." + th.until:
		th.concealing = false
	}
	return !th.concealing || m.Header.Get("Status") == ""
}

func (th *thief) set(steal, until string) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.steal, th.until, th.stolen = steal, until, 0
}

func (th *thief) hasStolen() bool {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.stolen > 0
}

func startThief(t *testing.T) (th *thief, admin, js jetstream.JetStream, kv jetstream.KeyValue) {
	t.Helper()
	th = &thief{}
	server := natstest.Start(t)
	admin, js = connect(t, server.URL()), connect(t, server.URL(), natstest.Tamper(th.deliver))
	return th, admin, js, bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
}

// TestAMessageLostOnTheWayIsNoticed: NATS delivers at most once, so a message of the consumer may be lost on its way to
// us, for example when the client is too slow. The watch goes on from before it, and the cursor does not pass it.
func TestAMessageLostOnTheWayIsNoticed(t *testing.T) {
	for name, until := range map[string]string{"by the next message": "after", "by a heartbeat": ""} {
		subtest(t, name, func(t *testing.T) {
			th, admin, js, kv := startThief(t)
			for i := range 10 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			r := start(t, js, Config{Bucket: "b", CompareInterval: 24 * time.Hour}).synced(t)
			r.follows(t, kv, "k0", 100, atOnce)
			before := r.Status()
			th.set("lost", until)
			revision := put(t, kv, "lost", 1)
			if until != "" {
				revision = put(t, kv, until, 1)
			}
			r.reaches(t, revision, 20*time.Second)
			if !th.hasStolen() {
				t.Fatal("nothing was lost: this test has lost its subject")
			}
			if !r.has("lost", 1) || until != "" && !r.has(until, 1) {
				t.Errorf("at cursor %d the store has lost: %v, and what came after it: %v",
					revision, r.get("lost"), r.get(until))
			}
			r.converges(t, kv, atOnce)
			if st := r.Status(); st.Resumes == before.Resumes || st.Lists != before.Lists {
				t.Errorf("%d resumes and %d lists more; going on from the cursor would have done",
					st.Resumes-before.Resumes, st.Lists-before.Lists)
			}
			within(t, atOnce, "one consumer", func() bool { return consumers(t, admin, "b") == 1 })
			r.stop()
			r.seen.inOrder(t)
		})
	}
}

// TestAListIsNotCompleteWithoutAMessageThatWasLost: HasSynced promises every key that existed throughout.
func TestAListIsNotCompleteWithoutAMessageThatWasLost(t *testing.T) {
	for name, keys := range map[string][2]string{
		"the first": {"k0", "k1"}, "one of many": {"k50", "k51"},
		"the last but one": {"k98", "k99"}, "the last": {"k99", ""},
	} {
		subtest(t, name, func(t *testing.T) {
			th, _, js, kv := startThief(t)
			for i := range 100 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			th.set(keys[0], keys[1])
			r := start(t, js, Config{Bucket: "b"}).synced(t)
			if !th.hasStolen() {
				t.Fatal("nothing was lost: this test has lost its subject")
			}
			if n := len(r.GetStore().ListKeys()); n != 100 {
				t.Errorf("synced with %d of 100 keys; %s is %v", n, keys[0], r.get(keys[0]))
			}
			r.follows(t, kv, "k0", 100, atOnce)
		})
	}
}
