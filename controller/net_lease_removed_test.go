package controller

import (
	"context"
	"testing"
	"time"
)

// TestALeaseRemovedByHandLeavesOneLeader: if the other replica is faster to create the key again, two lead until the
// old leader looks at the lease, as it does every RetryPeriod. Then the old leader ends its term and cancels its
// reconciles, long before its own lease would run out.
func TestALeaseRemovedByHandLeavesOneLeader(t *testing.T) {
	t.Parallel()
	// 50 retry periods, for a machine that is busy; the lease of slowRenewal lasts a minute
	const looks = 5 * time.Second
	w := newWorld(t)
	ctx := t.Context()
	sites := w.sites()
	must(t, sites.Create(ctx, newSite("home", "")))
	var c [2]*Controller[*site]
	var cut [2]chan error // why the last reconcile of each was cancelled
	drain := func(cut chan error) {
		select {
		case <-cut:
		default:
		}
	}
	for i := range 2 {
		cut[i] = make(chan error, 1)
		var err error
		c[i], err = New("sites", w.away().sites(), ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			<-ctx.Done() // as long as it leads
			drain(cut[i])
			cut[i] <- context.Cause(ctx)
			return Result{}, ctx.Err()
		}), slowRenewal, WithGracePeriod(0))
		must(t, err)
		w.run(c[i])
	}
	leading := func(i int) bool { return c[i].Stats().Leading }
	for changes := 0; changes < 2; {
		eventually(t, "one leads, and works", func() bool {
			return leading(0) != leading(1) && c[0].Stats().Running+c[1].Stats().Running == 1
		})
		leader, other := 0, 1
		if leading(1) {
			leader, other = 1, 0
		}
		drain(cut[leader])
		must(t, w.kv("sites-status").Purge(ctx, "_nagi.lease"))
		eventually(t, "somebody made the lease again", func() bool { return w.lease().HolderIdentity != "" })
		var both time.Time
		settled := time.Now()
		for time.Since(settled) < 300*time.Millisecond {
			if leading(leader) == leading(other) { // between the terms maybe nobody
				settled = time.Now()
			}
			if !leading(leader) || !leading(other) {
				both = time.Time{}
			} else if both.IsZero() {
				both = time.Now()
			} else if time.Since(both) > looks {
				t.Fatalf("two have led for %v", looks)
			}
			time.Sleep(time.Millisecond)
		}
		if leading(leader) {
			continue
		}
		changes++
		select {
		case err := <-cut[leader]:
			if err != ErrLeaseLost {
				t.Errorf("the old leader's reconcile was cancelled with %v, want ErrLeaseLost", err)
			}
		case <-time.After(patience):
			t.Fatalf("the old leader's reconcile was not cancelled")
		}
	}
}
