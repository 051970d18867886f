package entity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// derive makes a client that shares the cache of another one, with the status bucket websites-audit.
func derive(t testing.TB, client *entity.Client[*Website]) *entity.Client[*Website] {
	t.Helper()
	derived, err := client.WithStatusBucket(testContext(t), "websites-audit")
	must(t, err)
	t.Cleanup(derived.Close)
	return derived
}

// newPair makes two clients that share one cache.
func newPair(t testing.TB, js jetstream.JetStream) (first, second *entity.Client[*Website]) {
	t.Helper()
	first = newClient[*Website](t, js, websites)
	return first, derive(t, first)
}

// TestSharingClientsReadEachOthersWrites at once: what one of them writes, the listers of both have.
func TestSharingClientsReadEachOthersWrites(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first, second := newPair(t, newServer(t))
		start(t, first)
		start(t, second)
		const rounds = 100
		missed := map[string]int{}
		check := func(what string, ok bool) {
			if !ok {
				missed[what]++
			}
		}
		for round := range rounds {
			writer, reader := first, second
			if round%2 == 1 {
				writer, reader = second, first
			}
			name := fmt.Sprintf("site-%d", round)
			site := website(name)
			entity.SetOwner(site, "Shop", name, "i")
			must(t, writer.Create(t.Context(), site))
			got, err := reader.Lister().Get(name)
			check("create", err == nil && got.ResourceVersion == site.ResourceVersion)
			owned, err := reader.Lister().OwnedBy("Shop", name)
			check("owner", err == nil && len(owned) == 1)
			site.Spec.Replicas = round + 1
			must(t, writer.Update(t.Context(), site))
			got, err = reader.Lister().Get(name)
			check("update", err == nil && got.Spec.Replicas == round+1)
			must(t, writer.Patch(t.Context(), name, []byte(`{"spec":{"host":"patched"}}`)))
			got, err = reader.Lister().Get(name)
			check("patch", err == nil && got.Spec.Host == "patched")
			list, err := reader.Lister().List(nil)
			check("list", err == nil && len(list) == 1)
			must(t, writer.Delete(t.Context(), name))
			_, err = reader.Lister().Get(name)
			check("delete", apierrors.IsNotFound(err))
		}
		if len(missed) > 0 {
			t.Errorf("of %d reads each, so many missed the write before: %v", rounds, missed)
		}
	})
}

// TestAWriteOfASharingClientThatDoesNotRunIsReadAtOnce by the one that does, and is waited for.
func TestAWriteOfASharingClientThatDoesNotRunIsReadAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first, second := newPair(t, newServer(t))
		start(t, second)
		for i := range 30 {
			log := &ownwrites.Log{}
			ctx := ownwrites.WithLog(testContext(t), log)
			site := website(fmt.Sprintf("a%d", i))
			must(t, first.Create(ctx, site))
			if _, err := second.Lister().Get(site.Name); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			must(t, log.Wait(ctx))
			if !second.Informer().Exists(site.Name) {
				t.Fatalf("round %d: the log was not waited for", i)
			}
		}
	})
}

// TestSharingClientsHaveOneConsumerOfDocuments and one store, and a consumer for the records of each.
func TestSharingClientsHaveOneConsumerOfDocuments(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		first, second := newPair(t, js)
		start(t, first)
		start(t, second)
		must(t, first.Create(t.Context(), website("a")))
		for _, bucket := range []string{"websites-status", "websites-audit"} {
			wantNow(t, "there is one of "+bucket, func() bool { return consumers(t, js, bucket) == 1 })
		}
		wantNow(t, "both have the document", func() bool {
			return first.Informer().Exists("a") && second.Informer().Exists("a")
		})
		follow(t, js, first, second)
		wantConsumers(t, js, "both run", 1)
		one, _, _ := first.Informer().GetStore().GetByKey("a")
		other, _, _ := second.Informer().GetStore().GetByKey("a")
		if one != other {
			t.Error("each has a document of its own")
		}
		independent := newClient[*Website](t, js, entity.Config{
			Kind: "Website", Bucket: "websites", StatusBucket: "websites-third",
		})
		start(t, independent)
		if !first.SharesCacheWith(second) || !second.SharesCacheWith(first) || independent.SharesCacheWith(first) {
			t.Error("who shares with whom is told wrong")
		}
		wantNow(t, "an independent client has one of its own", func() bool { return consumers(t, js, "websites") == 2 })
	})
}

// TestSharingClientsHaveStatusesOfTheirOwn, in their listers and in live reads.
func TestSharingClientsHaveStatusesOfTheirOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first, second := newPair(t, newServer(t))
		start(t, first)
		start(t, second)
		ctx := testContext(t)
		must(t, first.Create(ctx, website("a")))
		for client, url := range map[*entity.Client[*Website]]string{first: "first", second: "second"} {
			site, err := client.Lister().Get("a")
			must(t, err)
			site.Status.URLs = []string{url}
			must(t, client.UpdateStatus(ctx, site))
			rec := &entity.Record{Controller: url}
			must(t, client.Records().Put(ctx, url, rec))
		}
		for client, url := range map[*entity.Client[*Website]]string{first: "first", second: "second"} {
			cached, err := client.Lister().Get("a")
			must(t, err)
			live, err := client.Get(ctx, "a")
			must(t, err)
			listed, err := client.List(ctx)
			must(t, err)
			for _, site := range []*Website{cached, live, listed[0]} {
				if len(site.Status.URLs) != 1 || site.Status.URLs[0] != url {
					t.Errorf("the client of %s reads the status %v", url, site.Status.URLs)
				}
			}
			if keys := client.Records().Keys(); len(keys) != 2 {
				t.Errorf("the client of %s has records %q", url, keys)
			}
			if _, ok := client.Records().Cached(url); !ok {
				t.Errorf("the client of %s lacks its record", url)
			}
		}
		if first.Records().Bucket() != "websites-status" || second.Records().Bucket() != "websites-audit" ||
			second.Config().StatusBucket != "websites-audit" || first.Config().StatusBucket != "websites-status" {
			t.Errorf("status buckets %q and %q", first.Config().StatusBucket, second.Config().StatusBucket)
		}
	})
}

// TestSharingClientsAreWaitedForEachByItsRecords: that one controller has reconciled says nothing of the other.
func TestSharingClientsAreWaitedForEachByItsRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first, second := newPair(t, newServer(t))
		start(t, first)
		start(t, second)
		ctx := testContext(t)
		site := website("a")
		must(t, first.Create(ctx, site))
		wantNow(t, "the stream is known", func() bool { return !first.Informer().Status().StreamCreated.IsZero() })
		must(t, second.Records().Put(ctx, "a", &entity.Record{
			Controller: "c", ObservedRevision: uint64(site.Generation),
			Stream: entity.StreamIdentity(second.Informer().Status().StreamCreated),
			Conditions: []metav1.Condition{
				{Type: entity.ConditionReconciled, Status: metav1.ConditionTrue, Reason: entity.ReasonSynced},
			},
		}))
		must(t, entity.WaitReconciled(ctx, second, "a", uint64(site.Generation)))
		short, cancel := context.WithTimeout(ctx, quiet)
		defer cancel()
		if err := entity.WaitReconciled(short, first, "a", uint64(site.Generation)); err == nil {
			t.Error("the record of one counts for the other")
		}
	})
}

// TestASharingClientWithoutStatus shares as well.
func TestASharingClientWithoutStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first := newClient[*Website](t, newServer(t), websites)
		second, err := first.WithStatusBucket(testContext(t), entity.NoStatusBucket)
		must(t, err)
		defer second.Close()
		third, err := first.WithStatusBucket(testContext(t), entity.NoStatusBucket)
		must(t, err)
		defer third.Close()
		start(t, first)
		start(t, second)
		must(t, second.Create(t.Context(), website("a")))
		if _, err := first.Lister().Get("a"); err != nil {
			t.Error(err)
		}
		if second.Records() != nil {
			t.Error("it has records")
		}
	})
}

func TestAStatusBucketOfAnotherSharingClientIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first, second := newPair(t, newServer(t))
		ctx := testContext(t)
		for bucket, says := range map[string]string{
			"":                "name the status bucket",
			"websites":        "is the bucket",
			"websites-status": "has a client already",
			"websites-audit":  "has a client already",
			"no such name":    "letters, digits",
		} {
			for _, client := range []*entity.Client[*Website]{first, second} {
				if _, err := client.WithStatusBucket(ctx, bucket); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("status bucket %q: got %v, want %q", bucket, err, says)
				}
			}
		}
		second.Close()
		if _, err := second.WithStatusBucket(ctx, "websites-third"); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("a closed client: %v", err)
		}
		again, err := first.WithStatusBucket(ctx, "websites-audit") // it was closed
		must(t, err)
		again.Close()
	})
}

// TestADerivedClientThatCannotBeMadeLeavesTheOtherAsItIs.
func TestADerivedClientThatCannotBeMadeLeavesTheOtherAsItIs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		newClient[*Website](t, js, cfg)
		cfg.BindOnly = true
		first := newClient[*Website](t, js, cfg)
		ctx := testContext(t)
		if _, err := first.WithStatusBucket(ctx, "missing"); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Fatalf("got %v", err)
		}
		_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "missing", LimitMarkerTTL: time.Hour})
		must(t, err)
		second, err := first.WithStatusBucket(ctx, "missing")
		must(t, err)
		defer second.Close()
		start(t, first)
		must(t, first.Create(ctx, website("a")))
	})
}

// TestTheLeaderIsNotAskedAboutWhatTheCacheOfASharingClientHas read.
func TestTheLeaderIsNotAskedAboutWhatTheCacheOfASharingClientHas(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		reads := asked(t, js, "KV_shops")
		running := newClient[*Shop](t, js, shops)
		idle, err := running.WithStatusBucket(t.Context(), "shops-idle")
		must(t, err)
		t.Cleanup(idle.Close)
		revision := put(t, js, "s", `{"spec":{"title":"old"}}`)
		start(t, running)
		must(t, running.Informer().WaitKey(t.Context(), "s", revision))
		shop, err := running.Lister().Get("s")
		must(t, err)
		reads()
		must(t, idle.Update(t.Context(), shop))
		if got := reads(); got != 0 {
			t.Errorf("%d reads of the leader", got)
		}
	})
}
