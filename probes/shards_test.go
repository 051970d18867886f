package probes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// member is a replica with its own connection and probes; without a name it is one without shards.
type member struct {
	*testing.T
	*probes.Probes
	c     *controller.Controller[*site]
	sites *entity.Client[*site]
	wire  *natstest.Proxy
	stop  func() // does not wait
	ended chan error
}

func newMember(t *testing.T, server *natstest.Server, name string, takes func(context.Context)) *member {
	t.Helper()
	m := &member{T: t, Probes: probes.New(), wire: natstest.StartProxy(t, server.URL()), ended: make(chan error, 1)}
	_, js := natstest.Connect(t, m.wire.URL())
	var err error
	m.sites, err = entity.NewClient[*site](t.Context(), js, entity.Config{Kind: "Site", Bucket: "sites"})
	must(t, err)
	t.Cleanup(m.sites.Close)
	opts := []controller.Option{controller.WithWorkers(100)}
	if name != "" {
		opts = append(opts, controller.WithShards(16), controller.WithMember(name, 1))
	}
	m.c, err = controller.New("sites", m.sites, controller.ReconcilerFunc(
		func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			takes(ctx)
			return controller.Result{}, nil
		}), opts...)
	must(t, err)
	m.Add("sites", m.c)
	return m
}

func (m *member) run() *member {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() { m.ended <- m.c.Run(ctx); close(m.ended) }()
	m.Cleanup(func() { cancel(); <-m.ended })
	return m
}

// make makes documents, some in each slot.
func (m *member) make() {
	m.Helper()
	for i := range 100 {
		must(m.T, m.sites.Create(m.Context(), &site{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}))
	}
	time.Sleep(time.Second)
}

// wants that it is alive, is ready or not, and says just these problems, each of which is "what: a part of the reason".
func (m *member) wants(ready bool, problems ...string) {
	m.Helper()
	if alive := m.Alive(); !alive.OK {
		m.Errorf("not alive: %+v", alive)
	}
	answer := m.Ready()
	says := func(p probes.Problem, want string) bool {
		what, reason, _ := strings.Cut(want, ": ")
		return p.Controller == "sites" && p.What == what && strings.Contains(p.Reason, reason)
	}
	for _, want := range problems {
		if !slices.ContainsFunc(answer.Problems, func(p probes.Problem) bool { return says(p, want) }) {
			m.Errorf("it does not say %q", want)
		}
	}
	if answer.OK != ready || len(answer.Problems) != len(problems) {
		m.Errorf("ready: %v, wanted %v, with %q; says %+v", answer.OK, ready, problems, answer.Problems)
	}
}

func nothing(context.Context) {}

// takes is a reconcile that takes a while, unless its context ends.
func takes(d time.Duration) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// TestARollingUpdateToShardsAndBackGoesOn: who waits for the replicas of the other sort is ready, or these would never
// be stopped.
func TestARollingUpdateToShardsAndBackGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		alone := newMember(t, server, "", nothing).run()
		time.Sleep(5 * time.Second)
		m := newMember(t, server, "a", nothing)
		m.wants(false, "synced: not all sources have synced yet")
		m.run()
		time.Sleep(5 * time.Second)
		m.wants(true, "shards: another replica works alone")
		alone.stop()
		time.Sleep(5 * time.Second)
		if m.wants(true); m.c.Stats().Shards.Open != 16 {
			t.Errorf("it works at %+v", m.c.Stats().Shards)
		}
		after := newMember(t, server, "", nothing).run()
		time.Sleep(5 * time.Second)
		after.wants(true, "lease (bucket sites-status): other replicas share the keys: sites-status/_nagi.lease is held by")
		m.stop()
		time.Sleep(5 * time.Second)
		if after.wants(true); !after.c.Stats().Leading {
			t.Error("it does not lead")
		}
	})
}

// TestAReplicaIsReadyThatMembersKeepFromAFreeLease.
func TestAReplicaIsReadyThatMembersKeepFromAFreeLease(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		first := newMember(t, server, "", nothing).run()
		time.Sleep(5 * time.Second)
		_, js := natstest.Connect(t, server.URL())
		for key, value := range map[string]string{"": `{"slots":16}`, ".member.a-0946684800000-x": `{}`} {
			_, err := js.Publish(t.Context(), "$KV.sites-status._nagi.shards"+key, []byte(value))
			must(t, err)
		}
		first.stop()
		second := newMember(t, server, "", nothing).run()
		time.Sleep(5 * time.Second)
		second.wants(true, "lease (bucket sites-status): other replicas share the keys: 1 work with WithShards, such as")
	})
}

// TestAMemberWithoutASlotIsReady, and so is one that leaves: each says what it waits for.
func TestAMemberWithoutASlotIsReady(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		a := newMember(t, server, "a", takes(8*time.Second)).run()
		time.Sleep(5 * time.Second)
		a.make()
		b := newMember(t, server, "b", nothing).run()
		time.Sleep(3 * time.Second)
		moves := a.c.Stats().Shards.Moving
		b.wants(true, fmt.Sprintf("shards: member b has no slot yet: %d are to come", moves))
		a.wants(true)
		time.Sleep(20 * time.Second)
		a.wants(true)
		b.wants(true)
		for i := range 100 {
			a.c.Enqueue(fmt.Sprint("s", i), controller.OperationManual)
		}
		time.Sleep(time.Second)
		a.stop()
		time.Sleep(time.Second)
		a.wants(true, fmt.Sprintf("shards: member a leaves: %d of its slots are still to be handed over", 16-moves))
		b.wants(true)
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAMemberThatLostItsLeaseIsNotReady until it has another one. While a reconcile of the lease before goes on, that
// is the reason, though nothing is wrong with the connection any more.
func TestAMemberThatLostItsLeaseIsNotReady(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		leave := make(chan struct{})
		a := newMember(t, server, "a", func(context.Context) { <-leave }).run()
		b := newMember(t, server, "b", nothing).run()
		time.Sleep(20 * time.Second)
		a.wants(true)
		b.make()
		a.wire.Blackhole()
		time.Sleep(8 * time.Second)
		const leads = "lease (bucket sites-status): is JetStream up" // whichever request it was
		const renews = "lease of this member (bucket sites-status): renew the lease of member a-"
		reads := []string{"primary Site (bucket sites): no answer", "watch of shards (bucket sites-status): no answer"}
		a.wants(false, append(reads, renews, leads)...)
		b.wants(true)
		time.Sleep(8 * time.Second)
		const ended = "lease of this member (bucket sites-status): has ended, and others may have its slots"
		const runs = "end of the term: the reconciles of"
		a.wants(false, append(reads, ended, runs, leads)...)
		a.wire.Resume()
		time.Sleep(10 * time.Second)
		a.wants(false, ended, runs)
		b.wants(true)
		close(leave)
		time.Sleep(5 * time.Second)
		a.wants(true)
	})
}
