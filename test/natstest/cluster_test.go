package natstest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func waitReady(t *testing.T, c *natstest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

func waitStream(t *testing.T, c *natstest.Cluster, stream string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := c.WaitStream(ctx, stream); err != nil {
		t.Fatal(err)
	}
}

func TestReadyClusterCreatesReplicatedStreamsAtOnce(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, c.URLs())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := range 3 {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: fmt.Sprintf("S%d", i), Subjects: []string{fmt.Sprintf("s%d.>", i)}, Replicas: 3,
		})
		if err != nil {
			t.Fatalf("first request for stream %d: %v", i, err)
		}
	}
}

func TestMembersComeBackOnTheirStore(t *testing.T) {
	t.Parallel() // it waits for elections, which take seconds
	c := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, c.URLs())
	kv := bucket(t, js, "b", 3)
	for i, s := range c.Servers() {
		url := s.URL()
		c.Stop(i)
		value := fmt.Sprint("while member ", i, " was down")
		eventually(t, 30*time.Second, func(ctx context.Context) error {
			// A request that reaches a leader as it goes is never answered: each attempt has its own time.
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := kv.PutString(ctx, "k", value)
			return err
		})
		if err := c.Start(i); err != nil {
			t.Fatal(err)
		}
		if s.URL() != url {
			t.Fatalf("member %d moved from %s to %s", i, url, s.URL())
		}
		waitStream(t, c, "KV_b")
		eventually(t, 10*time.Second, holds(kv, "k", value))
	}
}

func TestWholeClusterComesBackOnItsStore(t *testing.T) {
	t.Parallel() // it waits for elections, which take seconds
	c := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, c.URLs())
	kv := bucket(t, js, "b", 3)
	put(t, kv, "k", "v")
	for i := range c.Servers() {
		c.Stop(i)
	}
	if leader := c.MetaLeader(); leader != -1 {
		t.Fatalf("a stopped cluster is led by %d", leader)
	}
	for i := range c.Servers() {
		if err := c.Start(i); err != nil {
			t.Fatal(err)
		}
	}
	waitStream(t, c, "KV_b")
	eventually(t, 10*time.Second, holds(kv, "k", "v"))
}

func TestLeadersAreFoundAndStepDown(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, c.URLs())
	bucket(t, js, "b", 3)
	consumer, err := js.CreateConsumer(t.Context(), "KV_b", jetstream.ConsumerConfig{Durable: "d", Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		info, err := consumer.Info(ctx)
		if err != nil {
			return err
		}
		found := fmt.Sprint("n", c.ConsumerLeader("KV_b", "d"))
		if info.Cluster == nil || info.Cluster.Leader != found { // it may not be elected yet
			return fmt.Errorf("consumer leader is %s, the server says %+v", found, info.Cluster)
		}
		return nil
	})
	waitStream(t, c, "KV_b")
	for _, group := range []struct {
		leader   func() int
		stepDown func() error
	}{
		{func() int { return c.StreamLeader("KV_b") }, func() error { return c.StepDown("KV_b") }},
		{func() int { return c.ConsumerLeader("KV_b", "d") }, func() error { return c.StepDownConsumer("KV_b", "d") }},
	} {
		before := group.leader()
		if err := group.stepDown(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, func(context.Context) error {
			if now := group.leader(); now < 0 || now == before {
				return fmt.Errorf("leader was %d and is %d", before, now)
			}
			return nil
		})
	}
	if c.StreamLeader("none") != -1 || c.ConsumerLeader("KV_b", "none") != -1 {
		t.Fatal("what does not exist has a leader")
	}
	if err := c.StepDown("none"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Fatalf("step down of a stream that does not exist: %v", err)
	}
}

func TestNotReadyClusterSaysWhatIsMissing(t *testing.T) {
	t.Parallel() // it waits for elections, which take seconds
	c := natstest.StartCluster(t, 3)
	c.Stop(0)
	c.Stop(1) // no quorum
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.WaitStream(ctx, "KV_none"); err == nil {
		t.Fatal("a stream that does not exist is ready")
	}
	if err := c.Start(0); err != nil {
		t.Fatal(err)
	}
	waitReady(t, c) // two of three are a quorum
}

func TestClosedClusterLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	c, err := natstest.NewCluster(2)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Fatalf("left over: %v, %v", left, err)
	}
}

func TestClusterWithoutJetStream(t *testing.T) {
	c := natstest.StartCluster(t, 3, natstest.WithoutJetStream())
	sub, _ := natstest.Connect(t, c.Servers()[0].URL())
	pub, _ := natstest.Connect(t, c.Servers()[2].URL())
	s, err := sub.SubscribeSync("x")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func(context.Context) error {
		if err := pub.Publish("x", nil); err != nil {
			return err
		}
		_, err := s.NextMsg(100 * time.Millisecond)
		return err
	})
}

func TestClusterOfOneIsRefused(t *testing.T) {
	if c, err := natstest.NewCluster(1); err == nil {
		c.Close()
		t.Fatal("no error")
	}
}

func BenchmarkStartCluster(b *testing.B) {
	for b.Loop() {
		c, err := natstest.NewCluster(3)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		c.Close()
		b.StartTimer()
	}
}

func TestClusterMayBeAskedWhileMembersStopAndStart(t *testing.T) {
	t.Parallel() // it waits for elections, which take seconds
	c := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, c.URLs())
	bucket(t, js, "b", 3)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			c.StreamLeader("KV_b")
			c.ConsumerLeader("KV_b", "none")
			_ = c.StepDown("KV_b") // fails while there is no leader
			attempt, done := context.WithTimeout(ctx, 10*time.Millisecond)
			_ = c.WaitStream(attempt, "KV_b")
			done()
		}
	})
	for round := range 6 {
		c.Stop(round % 3)
		if err := c.Start(round % 3); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
	waitStream(t, c, "KV_b")
}
