package controller

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// hanging has the reconcile of a key hang at one member until release is called: it ignores its context.
func (s *sharded) hanging(name, key string) (hangs func() bool, release func()) {
	begun, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.mu.Lock()
	s.hangs = func(member string, r Request) {
		if member == name && r.Key == key {
			once.Do(func() { close(begun); <-end })
		}
	}
	s.mu.Unlock()
	hangs = func() bool {
		select {
		case <-begun:
			return true
		default:
			return false
		}
	}
	return hangs, sync.OnceFunc(func() { close(end) })
}

// TestAReconcileThatHangsHoldsItsSlotUpAndNoMore: another member has the other slots by then. Degraded says so, from a
// second after the end of the grace period on, and as long as it hangs.
func TestAReconcileThatHangsHoldsItsSlotUpAndNoMore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		a := s.join("a", WithGracePeriod(5*time.Second))
		natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
		s.make(a.sites, 40)
		time.Sleep(5 * time.Second)
		key := s.goesTo("b", a, 40)
		hangs, release := s.hanging("a", key)
		defer release()
		a.c.Enqueue(key, OperationManual)
		natstest.Eventually(t, "it hangs", hangs)
		b := s.join("b")
		natstest.Eventually(t, "the owner drains", func() bool { return a.c.Stats().Shards.Draining > 0 })
		drains := time.Now()
		time.Sleep(5*time.Second + 900*time.Millisecond)
		if problems := a.c.Stats().Degraded; len(problems) > 0 {
			t.Errorf("after %v: %v", time.Since(drains), problems)
		}
		time.Sleep(200 * time.Millisecond)
		for range 25 {
			wantDegraded(t, a, "1 slots are not handed over, and nothing starts in them")
			if n := a.c.Stats().Shards.Draining; n != 1 {
				t.Errorf("after %v it drains %d slots", time.Since(drains), n)
			}
			time.Sleep(time.Second)
		}
		if e := b.c.Explain(key); e.Member != "a" {
			t.Errorf("%q works at it", e.Member)
		}
		release()
		time.Sleep(time.Second)
		if e := b.c.Explain(key); e.Member != "b" || len(a.c.Stats().Degraded) > 0 {
			t.Errorf("%q works at it, and the other one is degraded by %v", e.Member, a.c.Stats().Degraded)
		}
		s.touch(40, a, b)
	})
}

// TestAMemberWhoseReconcileHangsEndsIfItHasLostItsLease: it cannot be a member again, so another process has to. Degraded
// says why before.
func TestAMemberWhoseReconcileHangsEndsIfItHasLostItsLease(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, a := withOne(t)
		b := s.join("b", WithGracePeriod(15*time.Second))
		time.Sleep(10 * time.Second)
		key := ""
		for i := range 40 {
			if e := b.c.Explain(siteName(i)); e.Leading {
				key = siteName(i)
			}
		}
		hangs, release := s.hanging("b", key)
		defer release()
		b.c.Enqueue(key, OperationManual)
		natstest.Eventually(t, "it hangs", hangs)
		b.proxy.Blackhole()
		cut := time.Now()
		time.Sleep(17 * time.Second)
		b.proxy.Resume()
		if e := a.c.Explain(key); !e.Leading {
			t.Errorf("the other does not work at it: %+v", e)
		}
		time.Sleep(time.Second)
		wantDegraded(t, b, "go on although their context was cancelled")
		select {
		case <-b.running.done:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
		// The lease is over at most its duration after the cut, and grace period and patience follow.
		if took := time.Since(cut); took < 35*time.Second || took > 50*time.Second {
			t.Errorf("it ends %v after it was cut off", took)
		}
		if err := b.running.err; err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("it ends with %v", err)
		}
		b.running.err = nil
	})
}

// goesTo is a key of n whose slot a member is to have once it joins.
func (s *sharded) goesTo(name string, first *member, n int) (key string) {
	s.t.Helper()
	other := s.join(name)
	time.Sleep(10 * time.Second)
	for i := range n {
		if first.c.Explain(siteName(i)).Member == name {
			key = siteName(i)
		}
	}
	other.running.halt()
	time.Sleep(time.Second)
	return key
}
