package natsinformer

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// withCluster makes an answer about a stream one of a member of a cluster.
func withCluster(t *testing.T, answer []byte, cluster string) []byte {
	t.Helper()
	var body map[string]any
	must(t, json.Unmarshal(answer, &body))
	body["cluster"] = json.RawMessage(cluster)
	data, err := json.Marshal(body)
	must(t, err)
	return data
}

const (
	ofTheLeader    = `{"leader":"n0","replicas":[{"name":"n1","active":1},{"name":"n2","active":1}]}`
	withoutALeader = `{"name":"c","replicas":[{"name":"n1","active":1},{"name":"n2","active":60000000000}]}`
)

// TestAMemberWithoutALeaderIsNotBelieved: while a stream has no leader, any member answers for it, also one that is
// behind. Nothing of that may be taken for a restored stream, and a new informer may not claim to have synced. See
// TestSoakAMemberWithoutALeaderIsNotBelieved for what a member answers.
func TestAMemberWithoutALeaderIsNotBelieved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "old", 1)
		behind, err := admin.Conn().Request(infoRequests, nil, time.Second)
		must(t, err)
		var leaderless atomic.Bool
		answers := natstest.AnswersTo(infoRequests)
		js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
			switch {
			case !answers(m):
			case leaderless.Load():
				m.Data = withCluster(t, behind.Data, withoutALeader)
			default:
				m.Data = withCluster(t, m.Data, ofTheLeader)
			}
			return natstest.Fate{}
		})
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		r.follows(t, kv, "acknowledged", 1, atOnce)
		leaderless.Store(true)
		deleteConsumers(t, admin)
		fresh := start(t, js, Config{Bucket: "b"})
		time.Sleep(time.Minute)
		o.of(t, "no leader")
		if st := r.Status(); r.get("acknowledged") == nil || st.StreamChanges != 0 || st.Relisting || st.Lists != 1 {
			t.Errorf("the member was believed: %+v", st)
		}
		if fresh.HasSynced() || fresh.Status().Err == nil {
			t.Errorf("synced with a member that has no leader; %v", fresh.Status().Err)
		}
		leaderless.Store(false)
		within(t, prompt, "synced", fresh.HasSynced)
		if fresh.get("acknowledged") == nil {
			t.Error("synced without a key that was acknowledged")
		}
		r.follows(t, kv, "later", 1, prompt)
		if st := r.Status(); st.StreamChanges != 0 {
			t.Errorf("%d changes of a stream that was never another one", st.StreamChanges)
		}
	})
}

// TestOneStaleAnswerIsNoRestore: a new leader may answer before it has applied the last messages.
func TestOneStaleAnswerIsNoRestore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 20 {
			put(t, kv, fmt.Sprint("k", i), 1)
		}
		var lies atomic.Int64
		answers := natstest.AnswersTo(infoRequests)
		js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
			if answers(m) && lies.Add(-1) >= 0 {
				var body map[string]any
				must(t, json.Unmarshal(m.Data, &body))
				state := body["state"].(map[string]any)
				state["last_seq"] = state["last_seq"].(float64) - 1
				m.Data, _ = json.Marshal(body)
			}
			return natstest.Fate{}
		})
		r := start(t, js, Config{Bucket: "b", CompareInterval: 24 * time.Hour}).synced(t)
		r.follows(t, kv, "k19", 2, atOnce)
		lies.Store(2)
		deleteConsumers(t, admin)
		within(t, 2*endPause+time.Millisecond, "resumed", func() bool { return lies.Load() < 0 })
		r.follows(t, kv, "k19", 3, atOnce)
		if st := r.Status(); st.StreamChanges != 0 || st.Lists != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestAConsumerThatNobodyMakesIsAskedForUnderOtherNames: a cluster up to v2.12 may place it on a replica that was
// killed, and nobody answers. A stream that takes its time gets it all the same.
func TestAConsumerThatNobodyMakesIsAskedForUnderOtherNames(t *testing.T) {
	for name, test := range map[string]unplaced{
		"one place is dead": {lost: 1, names: 3, synced: 2 * time.Second},
		"chance is bad":     {lost: 4, names: 6, synced: 8 * time.Second},
		// The waits: four times two seconds, four, eight, and of sixteen the ten that it takes.
		"a slow stream": {late: 10 * time.Second, names: 8, synced: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { natstest.Test(t, test.run) })
	}
}

// unplaced is a stream of which some requests for a consumer are lost, and the others arrive late.
type unplaced struct {
	lost   int           // so many names are placed where nobody answers
	late   time.Duration // a request for one of the other names arrives so late
	names  int           // so many are asked for: the last one is for the watch, which follows the list
	synced time.Duration // the sum of the waits
}

func (u unplaced) run(t *testing.T) {
	server := natstest.Start(t)
	kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "k", 1)
	info, create := natstest.AnswersTo(infoRequests), natstest.To("$JS.API.CONSUMER.CREATE.KV_b.>")
	var mu sync.Mutex
	places := map[string]int{} // of names, in their order
	js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case info(m):
			m.Data = withCluster(t, m.Data, ofTheLeader)
		case create(m):
			if _, asked := places[m.Subject]; !asked {
				places[m.Subject] = len(places)
			}
			return natstest.Fate{Lost: places[m.Subject] < u.lost, Late: u.late}
		}
		return natstest.Fate{}
	})
	r := start(t, js, Config{Bucket: "b"})
	time.Sleep(u.synced - time.Millisecond)
	if r.HasSynced() {
		t.Errorf("synced before %v", u.synced)
	}
	within(t, 2*maxPause, "synced", r.HasSynced)
	mu.Lock()
	names := len(places)
	mu.Unlock()
	if names != u.names || !r.has("k", 1) {
		t.Errorf("%d names were asked for, want %d; k is there: %t", names, u.names, r.has("k", 1))
	}
}
