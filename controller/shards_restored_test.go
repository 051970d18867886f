package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAReplicaThatStartsInARestoredBucketTakesNoSlotOfOneThatMayWork: the backup names an owner whose lease has ended in
// it, and that one works on until it notices. The new one cannot know.
func TestAReplicaThatStartsInARestoredBucketTakesNoSlotOfOneThatMayWork(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		nc, js := natstest.Connect(t, s.server.URL())
		a := s.join("a")
		natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
		s.make(a.sites, 40)
		time.Sleep(5 * time.Second)
		backup, err := natstest.TakeSnapshot(t.Context(), nc, "KV_sites-status")
		must(t, err)
		time.Sleep(20 * time.Second)
		a.proxy.Hold()
		must(t, js.DeleteStream(t.Context(), "KV_sites-status"))
		must(t, backup.Restore(t.Context(), nc))
		restored := time.Now()
		b := s.join("b")
		s.wantsRest(restored, a, a, b)
	})
}

// wantsRest wants that no key was reconciled for as long as a lease lasts since began, and all 40 soon after the last
// replica that started had rested, too; and that two never worked at once, also when the one that is cut off is back.
func (s *sharded) wantsRest(began time.Time, cut *member, all ...*member) {
	s.t.Helper()
	most := time.Since(began) + 20*time.Second // the lease's duration, and a retry, of 4.4 s at most
	time.Sleep(time.Until(began.Add(time.Minute)))
	calls := s.since(began)
	if len(calls) != 40 {
		s.t.Errorf("%d keys were reconciled, want 40", len(calls))
	}
	for key, calls := range calls {
		if after := calls[0].begin.Sub(began); after < 15*time.Second || after > most {
			s.t.Errorf("%s was reconciled by %s after %v", key, calls[0].member, after)
		}
	}
	cut.proxy.Resume()
	time.Sleep(time.Minute)
	s.touch(40, all...)
	s.alone()
}

// TestWhoStartsInAStatusBucketThatWasMadeAnewTakesNoSlotOfOneThatMayWork: the bucket tells of none, and one has not
// noticed. Also the second that starts cannot know, and where the holder of the lease has noticed, and writes it again.
func TestWhoStartsInAStatusBucketThatWasMadeAnewTakesNoSlotOfOneThatMayWork(t *testing.T) {
	for _, alive := range []bool{false, true} {
		for _, later := range []time.Duration{0, time.Second, 3 * time.Second} {
			t.Run(fmt.Sprintf("the holder is alive: %v, another %v later", alive, later), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					s, a := withOne(t)
					all, cut := []*member{a}, a
					if alive {
						cut = s.join("d")
						all = append(all, cut)
					}
					time.Sleep(40 * time.Second)
					_, js := natstest.Connect(t, s.server.URL())
					stream, err := js.Stream(t.Context(), "KV_sites-status")
					must(t, err)
					cut.proxy.Hold()
					must(t, js.DeleteStream(t.Context(), "KV_sites-status"))
					_, err = js.CreateStream(t.Context(), stream.CachedInfo().Config)
					must(t, err)
					lost := time.Now()
					time.Sleep(later)
					all = append(all, s.join("b"))
					time.Sleep(2 * time.Second)
					s.wantsRest(lost, cut, append(all, s.join("c"))...)
				})
			})
		}
	}
}

// TestWhoStartsInABucketOfBeforeThereWereMembersTakesNoSlotOfOneThatMayWork: it is that of a backup, in which the lease
// is free. Says is what Degraded says meanwhile.
func TestWhoStartsInABucketOfBeforeThereWereMembersTakesNoSlotOfOneThatMayWork(t *testing.T) {
	for name, says := range map[string]string{
		"records":               "_nagi.lease is that of a backup, which is free, since 2000-01-01T00:00:50Z",
		"records and documents": "_nagi.lease is that of a backup, which is free, since 2000-01-01T00:00:50Z",
		"of an old server":      "slots are not taken before 2000-01-01T00:01:05",
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := newSharded(t)
				s.client("Site", "sites", func(cfg *entity.Config) { cfg.Storage = jetstream.FileStorage })
				plain := s.join("")
				natstest.Eventually(t, "it works", func() bool { return plain.c.Stats().Leading })
				s.make(plain.sites, 40)
				plain.running.halt()
				format, buckets, backups := "today's", []string{"sites-status"}, []*natstest.Snapshot(nil)
				switch name {
				case "of an old server":
					format = "old"
				case "records and documents":
					buckets = append(buckets, "sites")
				}
				for _, bucket := range buckets {
					backups = append(backups, s.snapshotOf(bucket, format))
				}
				a := s.join("a")
				time.Sleep(5 * time.Second)
				wantDegraded(t, a, "slots are not taken before") // as docs/scaling.md says of a first start with shards
				time.Sleep(time.Until(began.Add(50 * time.Second)))
				a.proxy.Hold()
				for i, bucket := range buckets {
					must(t, s.js.DeleteStream(t.Context(), "KV_"+bucket))
					must(t, backups[i].Restore(t.Context(), s.js.Conn()))
				}
				lost := time.Now()
				b := s.join("b")
				time.Sleep(5 * time.Second)
				wantDegraded(t, b, says)
				s.wantsRest(lost, a, a, b)
			})
		})
	}
}
