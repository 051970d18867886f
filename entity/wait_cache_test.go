package entity_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirming counts how often the leader is asked for a key.
type confirming struct {
	entity.IEntityClient[*Website]
	asked atomic.Int64
}

func (c *confirming) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	c.asked.Add(1)
	return c.IEntityClient.Confirm(ctx, key)
}

// TestAWaitAsksNobodyBecauseOfOtherKeys, however many records are written meanwhile.
func TestAWaitAsksNobodyBecauseOfOtherKeys(t *testing.T) {
	client := newClient[*Website](t, newServer(t), websites)
	start(t, client)
	must(t, client.Records().Put(t.Context(), "gone", &entity.Record{Controller: "c", DocumentRevision: 1}))
	counting := &confirming{IEntityClient: client}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- entity.WaitDeleted(ctx, counting, "gone") }()
	go func() { ended <- entity.WaitReconciled(ctx, counting, "absent", 0) }()
	written := 0
	for ; ctx.Err() == nil; written++ {
		must(t, client.Records().Put(t.Context(), "other", func() *entity.Record {
			rec, err := client.Record(t.Context(), "other")
			if err != nil {
				rec = &entity.Record{Controller: "c"}
			}
			rec.DocumentRevision++
			return rec
		}()))
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v", err)
		}
	}
	if asked := counting.asked.Load(); asked > 40 {
		t.Errorf("two waits of a second asked the leader %d times while %d records of another key were written",
			asked, written)
	}
}

// TestAWaitGoesOnWhenItsClientStops and starts again meanwhile.
func TestAWaitGoesOnWhenItsClientStops(t *testing.T) {
	client := newClient[*Website](t, newServer(t), websites)
	site := website("a")
	must(t, client.Create(t.Context(), site))
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline: a hundred starts take long
	defer cancel()
	waited := make(chan error, 8)
	for range cap(waited) {
		go func() { waited <- entity.WaitReconciled(ctx, client, "a", uint64(site.Generation)) }()
	}
	for range 100 {
		stop, err := client.Start()
		must(t, err)
		for client.Informer().Cursor() == 0 && !client.Informer().HasSynced() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond)
		stop()
	}
	report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, 0)
	for range cap(waited) {
		must(t, <-waited)
	}
}
