package natsinformer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestOnlyALeaderWithAMajorityIsBelieved(t *testing.T) {
	const fresh, stale = `{"active":1000000}`, `{"active":4000000000}`
	const since = "2026-01-02T03:04:05.6Z"
	for answer, led := range map[string]bool{
		`{}`:                                       true, // no cluster
		`{"cluster":{"leader":"n0"}}`:              true, // one replica
		`{"cluster":{"name":"c"}}`:                 false,
		`{"error":{"err_code":10008}}`:             false,
		`{"error":{"err_code":10059}}`:             true,
		`{"cluster":{"replicas":[` + fresh + `]}}`: false,
		// By a member that had no leader when it read its state, and by the leader:
		`{"cluster":{"leader":"n0","replicas":[{"name":"n0","active":1},{"name":"n2","active":1}]}}`: false,
		`{"cluster":{"leader":"n0","replicas":[{"name":"n1","active":1},{"name":"n2","active":1}]}}`: true,
		// By a member that was elected while it answered, and by the same when it has applied all:
		`{"cluster":{"leader":"n0","traffic_account":"$SYS","replicas":[` + fresh +
			`]}}`: false,
		`{"cluster":{"leader":"n0","traffic_account":"$SYS","leader_since":"` + since + `","replicas":[` + fresh +
			`]}}`: true,
		`{"cluster":{"leader":"n0","replicas":[` + fresh + `,` + stale +
			`]}}`: true,
		`{"cluster":{"leader":"n0","replicas":[` + stale + `,` + stale +
			`]}}`: false,
		`{"cluster":{"leader":"n0","replicas":[` + fresh +
			`,{"offline":true}]}}`: true,
		`{"cluster":{"leader":"n0","replicas":[` + stale +
			`,{"offline":true}]}}`: false,
	} {
		if leaderless([]byte(answer)) == led {
			t.Errorf("%s: led should be %v", answer, led)
		}
	}
}

// TestSoakAMemberWithoutALeaderIsNotBelieved: while a stream has no leader, any member answers for it. A member that is
// behind must not make acknowledged keys vanish, nor let a new informer claim to have synced without them.
func TestSoakAMemberWithoutALeaderIsNotBelieved(t *testing.T) {
	t.Parallel() // it waits
	c := natstest.StartCluster(t, 5)
	admin := connect(t, c.URLs())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	put(t, kv, "old", 1)
	stream, err := admin.Stream(t.Context(), "KV_b")
	must(t, err)
	number := map[string]int{}
	for i, s := range c.Servers() {
		number[s.Server().Name()] = i
	}
	members := stream.CachedInfo().Cluster
	leader, behind, other := number[members.Leader], number[members.Replicas[0].Name], number[members.Replicas[1].Name]
	outside := 0
	for outside == leader || outside == behind || outside == other {
		outside++
	}
	js := connect(t, c.Servers()[outside].URL(), nats.IgnoreDiscoveredServers())
	var o told
	r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
	c.Stop(behind)
	writable := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := kv.Put(ctx, "new", doc(1))
		return err == nil
	}
	eventually(t, 20*time.Second, "writable", writable)
	put(t, kv, "acknowledged", 1)
	eventually(t, 10*time.Second, "seen", func() bool { return r.get("acknowledged") != nil })

	stopped := make(chan struct{})
	go func() { defer close(stopped); c.Stop(other) }()
	c.Stop(leader)
	<-stopped
	must(t, c.Start(behind))
	eventually(t, 60*time.Second, "the member that is behind answers for the stream", func() bool {
		m, err := js.Conn().Request("$JS.API.STREAM.INFO.KV_b", nil, 200*time.Millisecond)
		return err == nil && strings.Contains(string(m.Data), `"cluster"`) && leaderless(m.Data)
	})
	fresh := start(t, js, Config{Bucket: "b"})
	o.of(t, "no leader")
	eventually(t, 10*time.Second, "the fresh one has asked, too", func() bool { return fresh.Status().Err != nil })
	if st := r.Status(); r.get("acknowledged") == nil || st.StreamChanges != 0 || st.Relisting {
		t.Errorf("the member was believed: %+v", st)
	}
	if fresh.HasSynced() {
		t.Error("synced with a member that has no leader")
	}
	must(t, c.Start(leader))
	eventually(t, 60*time.Second, "writable again", writable)
	eventually(t, 20*time.Second, "synced", fresh.HasSynced)
	if fresh.get("acknowledged") == nil {
		t.Error("synced without a key that was acknowledged")
	}
	r.follows(t, kv, "later", 1, 10*time.Second)
	if n := r.Status().StreamChanges; n != 0 {
		t.Errorf("%d changes of a stream that was never another one", n)
	}
}

// TestOneStaleAnswerIsNoRestore: a new leader may answer before it has applied the last messages.
func TestOneStaleAnswerIsNoRestore(t *testing.T) {
	server := natstest.Start(t)
	admin := connect(t, server.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	for i := range 20 {
		put(t, kv, fmt.Sprint("k", i), 1)
	}
	nc := admin.Conn()
	var lies atomic.Int64
	sub, err := nc.Subscribe("stale.API.>", func(m *nats.Msg) {
		subject := "$JS." + strings.TrimPrefix(m.Subject, "stale.")
		if subject != "$JS.API.STREAM.INFO.KV_b" || lies.Add(-1) < 0 {
			_ = nc.PublishRequest(subject, m.Reply, m.Data)
			return
		}
		answer, err := nc.Request(subject, m.Data, time.Second)
		if err != nil {
			return
		}
		var body map[string]any
		_ = json.Unmarshal(answer.Data, &body)
		state := body["state"].(map[string]any)
		state["last_seq"] = state["last_seq"].(float64) - 1
		data, _ := json.Marshal(body)
		_ = m.Respond(data)
	})
	must(t, err)
	defer func() { must(t, sub.Unsubscribe()) }()
	js, err := jetstream.NewWithAPIPrefix(connect(t, server.URL()).Conn(), "stale.API")
	must(t, err)
	r := start(t, js, Config{Bucket: "b", CompareInterval: 24 * time.Hour}).synced(t)
	r.follows(t, kv, "k19", 2, prompt)
	lies.Store(2)
	deleteConsumers(t, admin)
	eventually(t, 5*time.Second, "resumed", func() bool { return lies.Load() < 0 })
	r.follows(t, kv, "k19", 3, prompt)
	if st := r.Status(); st.StreamChanges != 0 || st.Lists != 1 {
		t.Errorf("%+v", st)
	}
}

// TestTheLeaderOfAnIdleStreamIsBelieved: its members only say that they are there.
func TestTheLeaderOfAnIdleStreamIsBelieved(t *testing.T) {
	t.Parallel() // it waits
	c := natstest.StartCluster(t, 3)
	js := connect(t, c.URLs())
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	put(t, kv, "k", 1)
	stalled := stalls(t)
	before := stalled()
	pass(freshPeer)
	for range 20 {
		m, err := js.Conn().Request("$JS.API.STREAM.INFO.KV_b", nil, 20*time.Second)
		must(t, err)
		if leaderless(m.Data) {
			pass(stall) // until the clock knows of a stall
			if stalled() == before {
				t.Fatalf("not believed: %s", m.Data)
			} // else the members have stood still, and nobody could hear of them
		}
		before = stalled()
		pass(100 * time.Millisecond)
	}
	r := start(t, js, Config{Bucket: "b"})
	eventually(t, prompt, "synced", r.HasSynced)
}
