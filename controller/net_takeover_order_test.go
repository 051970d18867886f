package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestANewLeaderWaitsForItsPredecessorsRecords: a standby gets the lease while its cache of records is behind, and
// still shows the anchor of a primary that the predecessor has torn down. It waits until the cache is up to date, and
// does not tear that primary down again.
func TestANewLeaderWaitsForItsPredecessorsRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		timing := WithLeaseTiming(longLease)
		ctx := t.Context()
		sites := w.sites()
		predecessor, err := New("sites", sites, (&calls{}).reconciler(nil), timing)
		must(t, err)
		r := w.run(predecessor)
		natstest.Eventually(t, "the first leads", func() bool { return predecessor.Stats().Leading })

		behind, relay := w.behindRelay()
		theirs := behind.sites()
		var seen calls
		successor, err := New("sites", theirs, seen.reconciler(nil), timing, WithWorkers(2))
		must(t, err)
		behind.run(successor)
		must(t, sites.Create(ctx, newSite("gone", "")))
		eventuallyReason(t, sites, "gone", entity.ReasonSynced)
		natstest.Eventually(t, "the standby knows the anchor", func() bool {
			record, ok := theirs.Records().Cached("gone")
			return ok && record.Anchor()
		})

		relay.mute("sites-status")
		must(t, sites.Delete(ctx, "gone"))
		natstest.Eventually(t, "the first tears it down", noRecord(t, sites, "gone"))
		must(t, sites.Create(ctx, newSite("there", "")))
		eventuallyReason(t, sites, "there", entity.ReasonSynced)
		natstest.Eventually(t, "the standby knows the documents", func() bool {
			all, err := theirs.Lister().List(nil)
			return err == nil && len(all) == 1 && all[0].Name == "there"
		})
		first := w.lease().HolderIdentity
		r.halt()
		natstest.Eventually(t, "the standby holds the lease", func() bool {
			holder := w.lease().HolderIdentity
			return holder != "" && holder != first
		})
		time.Sleep(10 * time.Second) // longer than the brake collects suspects
		if s := successor.Stats(); s.Leading || s.Reconciles > 0 {
			t.Fatalf("it works before its cache of records is up to date: leading %v, %d reconciles", s.Leading,
				s.Reconciles)
		}
		if record, ok := theirs.Records().Cached("gone"); !ok || !record.Anchor() {
			t.Fatal("its cache of records was not behind: this test has lost its subject")
		}

		relay.mute("")
		natstest.Eventually(t, "it leads", func() bool { return successor.Stats().Leading })
		must(t, sites.Create(ctx, newSite("later", "")))
		eventuallyReason(t, sites, "later", entity.ReasonSynced)
		natstest.Eventually(t, "its queue is worked off", func() bool {
			s := successor.Stats()
			return s.Ready == [3]int{} && s.Running == 0
		})
		if ops := seen.of("gone"); len(ops) > 0 {
			t.Errorf("it worked on what its predecessor had torn down: %v", ops)
		}
	})
}
