package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestEachMemberKnowsWhoWorksAtAKey: Explain names it, and is calm about it at the one that does.
func TestEachMemberKnowsWhoWorksAtAKey(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		a := s.join("a")
		s.make(a.sites, 40)
		b := s.join("b", WithMember("b", 3)) // the later option counts
		time.Sleep(20 * time.Second)
		of := map[string]int{}
		for i := range 40 {
			key, at := siteName(i), map[KeyState][]string{}
			for _, m := range []*member{a, b} {
				e := m.c.Explain(key)
				at[e.State] = append(at[e.State], m.name)
				switch {
				case e.Leading != (e.Member == m.name), e.Leading != (e.State == StateCalm), !e.Leading && e.NotOK():
					t.Errorf("%s says %+v", m.name, e)
				case !e.Leading && !strings.Contains(e.Says, "Member "+e.Member+" works at it"):
					t.Errorf("%s says %q", m.name, e.Says)
				}
				of[e.Member]++
			}
			if len(at[StateCalm]) != 1 || len(at[StateElsewhere]) != 1 {
				t.Errorf("%s: %v", key, at)
			}
		}
		if of["b"] < 2*of["a"] {
			t.Errorf("of three times the weight b has %v", of)
		}
	})
}

// TestWhatIsAskedOfOneMemberIsDoneByTheOneThatHasTheKey, once.
func TestWhatIsAskedOfOneMemberIsDoneByTheOneThatHasTheKey(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		a := s.join("a")
		s.make(a.sites, 40)
		b, c := s.join("b"), s.join("c")
		time.Sleep(20 * time.Second)
		began := time.Now()
		for i := range 40 {
			a.c.Enqueue(siteName(i), OperationManual)
		}
		time.Sleep(time.Minute)
		byHand := func(key string) []called { // and not because its turn of the resync has come
			return slices.DeleteFunc(s.since(began)[key], func(c called) bool { return !strings.Contains(c.op, "Manual") })
		}
		calls, by := map[string][]called{}, map[string]int{}
		for i := range 40 {
			key := siteName(i)
			if calls[key] = byHand(key); len(calls[key]) != 1 {
				t.Errorf("%s was reconciled %v", key, calls[key])
				continue
			}
			by[calls[key][0].member]++
			if took := calls[key][0].begin.Sub(began); took > time.Second {
				t.Errorf("%s was reconciled after %v", key, took)
			}
		}
		if by["a"] == 0 || by["b"] == 0 || by["c"] == 0 {
			t.Errorf("by %v", by)
		}
		began = time.Now()
		b.c.EnqueueAfter(siteName(0), OperationManual, 5*time.Second)
		c.c.EnqueueAfter(siteName(0), OperationManual, 15*time.Second)
		time.Sleep(time.Minute)
		if got := byHand(siteName(0)); len(got) != 2 || got[0].begin.Sub(began) < 5*time.Second {
			t.Errorf("after delays it was reconciled %v", got)
		}
	})
}

// TestStatsSayHowTheKeysAreShared.
func TestStatsSayHowTheKeysAreShared(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		a := s.join("a")
		s.make(a.sites, 40)
		b := s.join("b")
		time.Sleep(20 * time.Second)
		sums := map[string]int{}
		for _, m := range []*member{a, b} {
			now := m.c.Stats().Shards
			if now == nil || now.Slots != 64 || now.Member != m.name || now.Unowned+now.Moving+now.Draining > 0 ||
				now.Held != now.Open || now.Epoch == 0 || now.Refused > 0 || len(now.Members) != 2 {
				t.Fatalf("%s says %+v", m.name, now)
			}
			for i, name := range []string{"a", "b"} {
				if one := now.Members[i]; one.Name != name || one.Here != (name == m.name) || one.Slots == 0 ||
					one.Workers != 8 || one.Reconciles == 0 {
					t.Errorf("%s says of %s: %+v", m.name, name, one)
				}
			}
			sums["held"] += now.Held
			sums["slots"] += now.Members[0].Slots + now.Members[1].Slots
		}
		if sums["held"] != 64 || sums["slots"] != 128 {
			t.Errorf("together %v", sums)
		}
		epoch := b.c.Stats().Shards.Epoch
		a.running.halt()
		time.Sleep(5 * time.Second)
		if now := b.c.Stats().Shards; now.Held != 64 || len(now.Members) != 1 || now.Epoch <= epoch {
			t.Errorf("alone it says %+v", now)
		}
		if s.join("").c.Stats().Shards != nil {
			t.Error("a controller without shards has some")
		}
	})
}

// TestShardsThatCannotBeAreRefused, with what to do.
func TestShardsThatCannotBeAreRefused(t *testing.T) {
	for name, of := range map[string]struct {
		options []Option
		says    string
	}{
		"slot caches alone": {[]Option{WithSlotCaches()}, "would do nothing without WithShards"},
		"no proofs": {[]Option{WithShards(0), WithSlotCaches(), WithOwnerProof([]byte("a secret of 16 bytes or more"))},
			"exclude each other"},
		"one cache for both": {[]Option{WithShards(0), WithSlotCaches(), WithSelfOwnership()}, "exclude each other"},
		"too many":           {[]Option{WithShards(1 << 20)}, "want 1 to 16384"},
		"less than none":     {[]Option{WithShards(-1)}, "want 1 to 16384"},
		"without lease":      {[]Option{WithShards(0), WithoutLease()}, "exclude each other"},
		"without teardown":   {[]Option{WithShards(0), WithoutTeardown()}, "WithShards would do nothing with WithoutTeardown()"},
		"a member alone":     {[]Option{WithMember("a", 1)}, "would do nothing without WithShards"},
		"a name":             {[]Option{WithShards(0), WithMember("a b", 1)}, "must consist of"},
		"no name":            {[]Option{WithShards(0), WithMember("", 1)}, "must consist of"},
		"dots":               {[]Option{WithShards(0), WithMember("a..b", 1)}, "must consist of"},
		"a long name":        {[]Option{WithShards(0), WithMember(strings.Repeat("a", 101), 1)}, "100 bytes"},
		"no weight":          {[]Option{WithShards(0), WithMember("a", 0)}, "want 1 to 1000"},
	} {
		if _, err := applyOptions(of.options); err == nil || !strings.Contains(err.Error(), of.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	o, err := applyOptions([]Option{WithShards(0)})
	if err != nil || o.Shards != DefaultShards || o.Member == "" || o.MemberWeight != 1 {
		t.Errorf("by default it is %d, %q, %d: %v", o.Shards, o.Member, o.MemberWeight, err)
	}
	names := []string{memberName("web-0.default.svc"), memberName("böse host."), memberName("...")}
	if !slices.Equal(names, []string{"web-0.default.svc", "b-se-host", ""}) {
		t.Errorf("names are %q", names)
	}
}
