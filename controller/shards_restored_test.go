package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
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
		time.Sleep(time.Minute)
		calls := s.since(restored)
		if len(calls) != 40 {
			t.Errorf("%d keys were reconciled, want 40", len(calls))
		}
		for key, calls := range calls {
			if after := calls[0].begin.Sub(restored); calls[0].member != "b" || after < 15*time.Second ||
				after > 17*time.Second {
				t.Errorf("%s was reconciled by %s, %v after the bucket was restored", key, calls[0].member, after)
			}
		}
		a.proxy.Resume()
		time.Sleep(time.Minute)
		s.touch(40, a, b)
		s.alone()
	})
}

// TestReplicasTakeNoSlotWhereTheStatusBucketTellsNothingOfOneThatMayWork: it was made anew, or is that of a backup of when
// none worked. The one that works on has not noticed, and also the second that starts cannot know. They say why they wait.
func TestReplicasTakeNoSlotWhereTheStatusBucketTellsNothingOfOneThatMayWork(t *testing.T) {
	for name, says := range map[string]string{
		"made anew": "_nagi.lease is absent since 2000-01-01T00:00:50Z",
		"restored":  "_nagi.lease is that of a backup, which is free, since 2000-01-01T00:00:50Z",
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				began := time.Now()
				s, a := withOne(t)
				nc, js := natstest.Connect(t, s.server.URL())
				a.running.halt()
				backup, err := natstest.TakeSnapshot(t.Context(), nc, "KV_sites-status")
				must(t, err)
				a = s.join("a")
				time.Sleep(time.Until(began.Add(50 * time.Second)))
				a.proxy.Hold()
				must(t, js.DeleteStream(t.Context(), "KV_sites-status"))
				if name == "restored" {
					must(t, backup.Restore(t.Context(), nc))
				}
				lost := time.Now()
				b := s.join("b")
				time.Sleep(2 * time.Second)
				c := s.join("c")
				time.Sleep(5 * time.Second)
				wantDegraded(t, b, says)
				time.Sleep(time.Minute)
				calls := s.since(lost)
				if len(calls) != 40 {
					t.Errorf("%d keys were reconciled, want 40", len(calls))
				}
				for key, calls := range calls {
					if after := calls[0].begin.Sub(lost); after < 15*time.Second || after > 19*time.Second {
						t.Errorf("%s was reconciled by %s after %v", key, calls[0].member, after)
					}
				}
				a.proxy.Resume()
				time.Sleep(time.Minute)
				s.touch(40, a, b, c)
				s.alone()
			})
		})
	}
}
