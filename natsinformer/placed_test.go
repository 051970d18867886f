package natsinformer

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAConsumerThatNobodyMakesIsAskedForUnderAnotherName: a cluster before v2.15 may place it on a replica that was
// just killed, and nobody answers.
func TestAConsumerThatNobodyMakesIsAskedForUnderAnotherName(t *testing.T) {
	t.Parallel() // it waits
	c := natstest.StartCluster(t, 3)
	kv := bucket(t, connect(t, c.URLs()), jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	put(t, kv, "k", 1)
	var mu sync.Mutex
	lost := ""
	js := connect(t, c.URLs(), natstest.Tamper(func(m *nats.Msg) bool {
		var made struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if json.Unmarshal(m.Data, &made) != nil || !strings.HasSuffix(made.Type, ".consumer_create_response") {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		if lost == "" {
			lost = made.Name
		}
		return made.Name != lost
	}))
	r := start(t, js, Config{Bucket: "b"})
	eventually(t, slowRequest/2, "synced", r.HasSynced)
	mu.Lock()
	defer mu.Unlock()
	if lost == "" || !r.has("k", 1) {
		t.Errorf("a request was lost: %t; k is there: %t", lost != "", r.has("k", 1))
	}
}
