package entity_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirming counts how often the leader is asked for a key.
type confirming struct {
	entity.IEntityClient[*Website]
	asked atomic.Int64
}

func (c *confirming) EnginePort() entity.EnginePort[*Website] {
	return confirmingPort{c.IEntityClient.EnginePort(), c}
}

type confirmingPort struct {
	entity.EnginePort[*Website]
	of *confirming
}

func (p confirmingPort) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	p.of.asked.Add(1)
	return p.EnginePort.Confirm(ctx, key)
}

// TestAWaitAsksNobodyBecauseOfOtherKeys, however many records are written meanwhile.
func TestAWaitAsksNobodyBecauseOfOtherKeys(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		start(t, client)
		must(t, client.Records().Put(t.Context(), "gone", &entity.Record{Controller: "c", DocumentRevision: 1}))
		counting := &confirming{IEntityClient: client}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended, revision := make(chan error, 2), uint64(0)
		go func() { ended <- entity.WaitDeleted(ctx, counting, "gone") }()
		go func() { ended <- entity.WaitReconciled(ctx, counting, "absent", 0) }()
		for n := range uint64(200) {
			time.Sleep(time.Second / 200)
			rec := &entity.Record{Controller: "c", DocumentRevision: n, Revision: revision}
			must(t, client.Records().Put(t.Context(), "other", rec))
			revision = rec.Revision
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the wait ended with %v", err)
			}
		}
		if asked := counting.asked.Load(); asked > 16 {
			t.Errorf("two waits of a second asked the leader %d times", asked)
		}
	})
}

// TestAWaitGoesOnWhenItsClientStops and starts again meanwhile.
func TestAWaitGoesOnWhenItsClientStops(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		ctx := testContext(t)
		waited := make(chan error, 8)
		for range cap(waited) {
			go func() { waited <- entity.WaitReconciled(ctx, client, "a", uint64(site.Generation)) }()
		}
		for range 20 {
			stop, err := client.Start()
			must(t, err)
			time.Sleep(5 * time.Millisecond)
			if !client.Informer().HasSynced() {
				t.Error("the cache has not synced")
			}
			stop()
			time.Sleep(5 * time.Millisecond)
		}
		report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, 0)
		for range cap(waited) {
			must(t, <-waited)
		}
	})
}
