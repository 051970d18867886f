package natsinformer

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// The tests of this file take real time: the members of a cluster connect over TCP only.

// patience is how long a cluster may take for what has to happen.
const patience = time.Minute

// TestInACluster holds what an informer relies on of a cluster's answers, leaders and replicas.
func TestInACluster(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	js := connect(t, c.URLs())
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *natstest.Cluster, js jetstream.JetStream)
	}{
		{"no key is missing", noKeyIsMissingInACluster},
		{"the leader of an idle stream is believed", leaderOfAnIdleStreamIsBelieved},
		{"a reconnect is no reason for a list", reconnectIsNoReasonForAList},
		{"a key expires", keyExpiresInACluster},
		{"recovery", recoveryInACluster}, // the last, because it stops a member
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, c, js)
			must(t, js.DeleteKeyValue(t.Context(), "b"))
		})
	}
}

func noKeyIsMissingInACluster(t *testing.T, c *natstest.Cluster, _ jetstream.JetStream) {
	l := startLoad(t, c.URLs(), 3)
	l.listExactly(t, "", soak(1))
	l.listExactly(t, "in.>", soak(1))
	l.stop()
}

// The members of an idle stream only say that they are there. They must do so before the leader is taken for one
// without a majority.
func leaderOfAnIdleStreamIsBelieved(t *testing.T, _ *natstest.Cluster, js jetstream.JetStream) {
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	put(t, kv, "k", 1)
	since := time.Now()
	natstest.Eventually(t, "believed without a pause", func() bool {
		m, err := js.Conn().Request(infoRequests, nil, patience)
		must(t, err)
		if leaderless(m.Data) {
			since = time.Now()
		}
		return time.Since(since) > freshPeer+freshPeer/4
	})
	start(t, js, Config{Bucket: "b"}).synced(t).stop()
}

// A reconnect in a cluster is no reason for a list, unless one server has the only replica: when it was killed, its
// consumers are made again there, so nothing tells that it was.
func reconnectIsNoReasonForAList(t *testing.T, c *natstest.Cluster, _ jetstream.JetStream) {
	for _, replicas := range []int{3, 1} {
		doubted := replicas == 1
		js := connect(t, c.URLs())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Replicas: replicas})
		must(t, c.WaitStream(t.Context(), "KV_b"))
		put(t, kv, "k", 0)
		var src atomic.Pointer[source]
		due := make(chan time.Time, 1)
		r := start(t, js, Config{Bucket: "b", OnInvalid: func(Entry, error) {
			due <- src.Load().counted.listAt // which is the worker's
		}}).synced(t)
		src.Store(r.Informer.(*informer).src)
		listAt := func() time.Time {
			put(t, kv, "bad", -1)
			return <-due
		}
		before := listAt()
		for n := range 5 {
			resumes := r.Status().Resumes
			must(t, js.Conn().ForceReconnect())
			natstest.Eventually(t, "it goes on", func() bool { return r.Status().Resumes > resumes })
			natstest.Eventually(t, "it is connected", js.Conn().IsConnected)
			r.follows(t, kv, "k", n+1, patience)
		}
		if after := listAt(); doubted && after.IsZero() || !doubted && !after.Equal(before) {
			t.Errorf("with %d replicas the next list is due at %v, before at %v", replicas, after, before)
		}
		r.stop()
		if !doubted {
			must(t, js.DeleteKeyValue(t.Context(), "b"))
		}
	}
}

// Each replica drops an expired key by itself, and the leader's word counts.
func keyExpiresInACluster(t *testing.T, _ *natstest.Cluster, js jetstream.JetStream) {
	kv := unmarked(t, js, 3)
	r := start(t, js, Config{Bucket: "b"}).synced(t)
	r.follows(t, kv, "stays", 1, patience)
	putFor(t, js, "k", `{"n":7}`, "2s")
	gone(t, js, "k")
	natstest.Eventually(t, "it is deleted", func() bool { return r.seen.last("k").kind == "delete" })
	r.wasDeleted(t, "k", 7, ranOut)
	r.converges(t, kv, patience)
	r.stop()
}

// writable waits until the stream has a leader: one that steps down may still answer.
func writable(t *testing.T, kv jetstream.KeyValue) {
	t.Helper()
	natstest.Eventually(t, "the stream takes a write", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := kv.Put(ctx, "other", doc(1))
		return err == nil
	})
}

func recoveryInACluster(t *testing.T, c *natstest.Cluster, js jetstream.JetStream) {
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	r := start(t, js, Config{Bucket: "b"}).synced(t)
	r.follows(t, kv, "probe", 1, patience)

	stop := changing(t, kv)
	must(t, c.StepDown("KV_b"))
	writable(t, kv)
	r.follows(t, kv, "probe", 2, patience)
	stop()
	r.converges(t, kv, patience)

	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	peer := -1
	natstest.Eventually(t, "one consumer, which has a leader", func() bool {
		n := 0
		for name := range stream.ConsumerNames(t.Context()).Name() {
			peer = c.ConsumerLeader("KV_b", name)
			n++
		}
		return n == 1 && peer >= 0
	})
	stop = changing(t, kv)
	c.Stop(peer)
	answersNow(t, js, "b")
	// Answering means that a consumer can be made, which takes the leader of the cluster.
	must(t, c.WaitReady(t.Context()))
	stop()
	writable(t, kv)
	r.follows(t, kv, "probe", 3, patience)
	r.converges(t, kv, patience)
	must(t, c.Start(peer))
	r.stop()
	r.seen.inOrder(t)
}

// TestSoakAMemberWithoutALeaderIsNotBelieved: while a stream has no leader, any member answers for it. A member that is
// behind must not make acknowledged keys vanish, nor let a new informer claim to have synced without them.
func TestSoakAMemberWithoutALeaderIsNotBelieved(t *testing.T) {
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
	natstest.Eventually(t, "writable", writable)
	put(t, kv, "acknowledged", 1)
	natstest.Eventually(t, "seen", func() bool { return r.get("acknowledged") != nil })

	stopped := make(chan struct{})
	go func() { defer close(stopped); c.Stop(other) }()
	c.Stop(leader)
	<-stopped
	must(t, c.Start(behind))
	natstest.Eventually(t, "the member that is behind answers for the stream", func() bool {
		m, err := js.Conn().Request("$JS.API.STREAM.INFO.KV_b", nil, 200*time.Millisecond)
		return err == nil && strings.Contains(string(m.Data), `"cluster"`) && leaderless(m.Data)
	})
	fresh := start(t, js, Config{Bucket: "b"})
	o.of(t, "no leader")
	natstest.Eventually(t, "the fresh one has asked, too", func() bool { return fresh.Status().Err != nil })
	if st := r.Status(); r.get("acknowledged") == nil || st.StreamChanges != 0 || st.Relisting {
		t.Errorf("the member was believed: %+v", st)
	}
	if fresh.HasSynced() {
		t.Error("synced with a member that has no leader")
	}
	must(t, c.Start(leader))
	natstest.Eventually(t, "writable again", writable)
	natstest.Eventually(t, "synced", fresh.HasSynced)
	if fresh.get("acknowledged") == nil {
		t.Error("synced without a key that was acknowledged")
	}
	r.follows(t, kv, "later", 1, patience)
	if n := r.Status().StreamChanges; n != 0 {
		t.Errorf("%d changes of a stream that was never another one", n)
	}
}
