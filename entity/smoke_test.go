package entity_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The members of a cluster speak TCP with each other, so these tests are in real time.

// TestReplicatedBucketsKeepThePromises: a replicated stream has other errors than a single server, and its
// acknowledgements come later.
func TestReplicatedBucketsKeepThePromises(t *testing.T) {
	_, js := natstest.Connect(t, natstest.StartCluster(t, 3).URLs())
	cfg := websites
	cfg.Replicas = 3
	client := newClient[*Website](t, js, cfg)
	start(t, client)
	ctx := testContext(t)
	lister := client.Lister()
	for range 5 {
		site := website("a")
		must(t, client.Create(ctx, site))
		wantError(t, "second create", apierrors.IsAlreadyExists, client.Create(ctx, website("a")))
		stale := site.DeepCopy()
		must(t, client.Update(ctx, site))
		wantError(t, "stale update", apierrors.IsConflict, client.Update(ctx, stale))
		must(t, client.Patch(ctx, "a", []byte(`{"spec":{"replicas":3}}`)))
		got, err := lister.Get("a")
		must(t, err)
		old := got.DeepCopy()
		got.Status.Ready = true
		must(t, client.UpdateStatus(ctx, got))
		old.Status.URLs = []string{"x"}
		wantError(t, "stale status", apierrors.IsConflict, client.UpdateStatus(ctx, old))
		got, err = lister.Get("a")
		must(t, err)
		if got.Spec.Replicas != 3 || !got.Status.Ready {
			t.Fatalf("read %+v", got)
		}
		rec, err := client.Record(ctx, "a")
		must(t, err)
		wantError(t, "put of another record", apierrors.IsConflict, client.Records().Put(ctx, "a", &entity.Record{}))
		must(t, client.Records().Delete(ctx, "a", rec.Revision))
		wantError(t, "stale delete", apierrors.IsConflict,
			client.Delete(ctx, "a", entity.IfRevision(uint64(stale.Generation))))
		must(t, client.Delete(ctx, "a", entity.Purge()))
		wantError(t, "second delete", apierrors.IsNotFound, client.Delete(ctx, "a"))
		presence, err := client.Confirm(ctx, "a")
		must(t, err)
		if presence.Exists {
			t.Fatal("confirmed after its delete")
		}
		_, err = lister.Get("a")
		wantError(t, "get", apierrors.IsNotFound, err)
	}
}

func TestConcurrentWritersAreLinearizableWhileTheLeaderChanges(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	connect := func() jetstream.JetStream {
		_, js := natstest.Connect(t, cluster.URLs())
		return js
	}
	cfg := websites
	cfg.Replicas = 3
	step := 0
	checkLinearizable(t, connect, cfg, soak(100), func(ctx context.Context) {
		for n := 0; n < soak(6) && pause(ctx, 400*time.Millisecond); n++ {
			leader := cluster.StreamLeader("KV_websites")
			if leader < 0 {
				continue
			}
			if step++; step%3 != 0 {
				_ = cluster.StepDown("KV_websites") // an election may be going on
				continue
			}
			cluster.Stop(leader)
			pause(ctx, 500*time.Millisecond)
			if err := cluster.Start(leader); err != nil {
				t.Error(err)
				return
			}
		}
	})
}
