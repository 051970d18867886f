package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// deletedByHand deletes the keys of the status bucket that begin so, as nats kv del does, and returns how many these are.
func (s *sharded) deletedByHand(begin string) (n int) {
	s.t.Helper()
	kv := s.kv("sites-status")
	keys, err := kv.Keys(s.t.Context())
	must(s.t, err)
	for _, key := range keys {
		if strings.HasPrefix(key, begin) {
			must(s.t, kv.Delete(s.t.Context(), key))
			n++
		}
	}
	return n
}

// TestWhatIsDeletedByHandOfMembersAndSlots stops work for as long as a lease lasts and two seconds at the most, two
// replicas never work at one key, and Degraded says why.
func TestWhatIsDeletedByHandOfMembersAndSlots(t *testing.T) {
	for name, of := range map[string]struct {
		begin, says string
	}{
		"a member":    {"_nagi.shards.member.b-", "are not taken before"},
		"all members": {"_nagi.shards.member.", "are not taken before"},
		"a slot":      {"_nagi.shards.slot.7", "slots are not taken before"},
		"all slots":   {"_nagi.shards.slot.", "slots are not taken before"},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				s, a := withOne(t)
				b := s.join("b")
				time.Sleep(20 * time.Second)
				s.touch(40, a, b)
				s.take(500 * time.Millisecond)
				if s.deletedByHand(of.begin) == 0 {
					t.Fatal("nothing is deleted")
				}
				began := time.Now()
				time.Sleep(time.Second)
				wantDegraded(t, b, of.says)
				for i := range 40 {
					must(t, a.sites.Patch(t.Context(), siteName(i), []byte(`{"spec":{"title":"x"}}`)))
				}
				natstest.Eventually(t, "all are reconciled", func() bool { return len(s.since(began.Add(time.Second))) == 40 })
				if took := time.Since(began); took > 17*time.Second+s.takes {
					t.Errorf("all are reconciled after %v", took)
				}
				time.Sleep(20 * time.Second)
				s.take(0)
				s.touch(40, a, b)
				s.alone()
			})
		})
	}
}

// TestTheNumberOfSlotsThatIsDeletedByHandIsWrittenAgain by the members, at once: no replica with another number, or
// without shards, works beside them.
func TestTheNumberOfSlotsThatIsDeletedByHandIsWrittenAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, a := withOne(t)
		b := s.join("b")
		time.Sleep(20 * time.Second)
		must(t, s.kv("sites-status").Delete(t.Context(), "_nagi.shards"))
		time.Sleep(100 * time.Millisecond)
		if got := s.raw("sites-status", "_nagi.shards"); got["slots"] != float64(64) {
			t.Errorf("it holds %v", got)
		}
		s.touch(40, a, b)
		a.proxy.Blackhole() // it dies, and the ordinary lease is free
		plain := s.join("")
		time.Sleep(time.Minute)
		if got := s.touch(40, b); got["b"] != 40 || plain.c.Stats().Leading {
			t.Errorf("beside one without shards: %v", got)
		}
		wantDegraded(t, plain, "works with WithShards(64)")
		s.alone()
	})
}

// TestAReplicaThatStartsWhereAllKeysOfMembersWereDeletedByHandRests for as long as a lease lasts: one that is cut off may
// work on, and only the lease tells of it.
func TestAReplicaThatStartsWhereAllKeysOfMembersWereDeletedByHandRests(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, a := withOne(t)
		time.Sleep(20 * time.Second)
		a.proxy.Hold()
		s.deletedByHand("_nagi.shards")
		gone := time.Now()
		b := s.join("b")
		time.Sleep(2 * time.Second)
		wantDegraded(t, b, "slots are not taken before")
		s.wantsRest(gone, a, a, b)
	})
}

// TestMembersEndWhereTheNumberOfSlotsIsAnotherOne by now, as after it was deleted by hand and a replica with another number
// was faster: keys fall into other slots there.
func TestMembersEndWhereTheNumberOfSlotsIsAnotherOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, a := withOne(t)
		time.Sleep(5 * time.Second)
		_, err := s.kv("sites-status").Put(t.Context(), "_nagi.shards", []byte(`{"slots":32}`))
		must(t, err)
		time.Sleep(time.Second)
		began := time.Now()
		must(t, a.sites.Patch(t.Context(), siteName(0), []byte(`{"spec":{"title":"x"}}`)))
		time.Sleep(time.Minute)
		if calls := s.since(began); len(calls) > 0 {
			t.Errorf("it goes on: %v", calls)
		}
		wantDegraded(t, a, "another number of slots: into 32")
		_, err = s.kv("sites-status").Put(t.Context(), "_nagi.shards", []byte(`{"slots":64}`))
		must(t, err)
		time.Sleep(20 * time.Second)
		s.touch(40, a)
	})
}

// TestTheKeysOfADeadMemberRunInTimeWhereItIsStartedAnew, or another one comes, before its lease has ended.
func TestTheKeysOfADeadMemberRunInTimeWhereItIsStartedAnew(t *testing.T) {
	for _, next := range []string{"b", "c"} {
		t.Run(next, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				s, a := withOne(t)
				b := s.join("b")
				time.Sleep(20 * time.Second)
				b.proxy.Blackhole()
				died := time.Now()
				time.Sleep(12 * time.Second)
				n := s.join(next)
				for i := range 40 {
					must(t, a.sites.Patch(t.Context(), siteName(i), []byte(`{"spec":{"title":"x"}}`)))
				}
				time.Sleep(17*time.Second - time.Since(died))
				for i := range 40 {
					calls := s.since(died)[siteName(i)]
					if len(calls) == 0 || calls[len(calls)-1].member == "b" && next == "c" {
						t.Errorf("%s after b died: %v", siteName(i), calls)
					}
				}
				if now := n.c.Stats().Shards; now.Unowned > 0 || now.Held == 0 {
					t.Errorf("%+v", now)
				}
				s.alone()
			})
		})
	}
}
