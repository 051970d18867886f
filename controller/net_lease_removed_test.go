package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// replicas are controllers of one primary, whose reconciles last as long as their terms. two is set once two of them
// ran at once.
type replicas struct {
	w       *world
	timing  Option
	running atomic.Int64
	two     atomic.Bool
}

func (r *replicas) join() (*Controller[*site], *running) {
	c, err := New("sites", r.w.away().sites(), ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
		if r.running.Add(1) > 1 {
			r.two.Store(true)
		}
		defer r.running.Add(-1)
		<-ctx.Done()
		return Result{}, ctx.Err()
	}), r.timing, WithGracePeriod(0))
	must(r.w.t, err)
	return c, r.w.run(c)
}

// pair has a replica that leads, and one that has seen it lead.
func (r *replicas) pair() (leader, other *Controller[*site]) {
	t := r.w.t
	t.Helper()
	must(t, r.w.sites().Create(t.Context(), newSite("home", "")))
	leader, _ = r.join()
	eventually(t, "it leads, and works", func() bool { return leader.Stats().Running == 1 })
	var looks atomic.Int64 // the holder only writes
	sub, err := r.w.js.Conn().Subscribe("$JS.API.STREAM.MSG.GET.KV_sites-status", func(msg *nats.Msg) {
		if strings.Contains(string(msg.Data), "._nagi.lease") {
			looks.Add(1)
		}
	})
	must(t, err)
	other, _ = r.join()
	eventually(t, "the other has looked twice", func() bool { return looks.Load() >= 2 })
	must(t, sub.Unsubscribe())
	return leader, other
}

// TestALeaseRemovedByHandStaysWithItsHolder, whatever other replicas there are, and however often it is removed. The
// first of two, which saw the holder, would create the key as soon as it is gone.
func TestALeaseRemovedByHandStaysWithItsHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	r := &replicas{w: w, timing: slowRenewal}
	leader, other := r.pair()
	kv := w.kv("sites-status")
	for i := range 20 {
		if i%2 == 0 {
			must(t, kv.Purge(ctx, "_nagi.lease"))
		} else {
			must(t, kv.Delete(ctx, "_nagi.lease"))
		}
		late, stop := r.join()
		eventually(t, "the lease is there again", func() bool { return w.lease().HolderIdentity != "" })
		if other.Stats().Leading || late.Stats().Leading || r.two.Load() || !leader.Stats().Leading {
			t.Fatalf("after %d removals: it leads: %v, the other: %v, one that came late: %v, two at once: %v", i+1,
				leader.Stats().Leading, other.Stats().Leading, late.Stats().Leading, r.two.Load())
		}
		stop.halt()
	}
}

// TestAHolderSeesThatItsLeaseIsGone and does not wait for its next renewal.
func TestAHolderSeesThatItsLeaseIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := &replicas{w: w, timing: WithLeaseTiming(LeaseTiming{
		Duration: 10 * time.Minute, RenewDeadline: 5 * time.Minute, RetryPeriod: 4 * time.Minute,
	})}
	leader, _ := r.join()
	eventually(t, "it leads", func() bool { return leader.Stats().Leading })
	for range 3 {
		must(t, w.kv("sites-status").Purge(t.Context(), "_nagi.lease"))
		eventually(t, "the lease is there again", func() bool { return w.lease().HolderIdentity != "" })
	}
	if !leader.Stats().Leading {
		t.Error("it does not lead any more")
	}
}

// TestALeaseOfALostBucketStaysWithItsHolder: nothing in the new bucket tells that there is one.
func TestALeaseOfALostBucketStaysWithItsHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	r := &replicas{w: w, timing: slowRenewal}
	leader, other := r.pair()
	for range 3 {
		status, err := w.js.Stream(ctx, "KV_sites-status")
		must(t, err)
		must(t, w.js.DeleteKeyValue(ctx, "sites-status"))
		_, err = w.js.CreateStream(ctx, status.CachedInfo().Config)
		must(t, err)
		eventually(t, "the lease is there again", func() bool {
			_, err := w.kv("sites-status").Get(ctx, "_nagi.lease")
			return err == nil
		})
		if other.Stats().Leading || r.two.Load() || !leader.Stats().Leading {
			t.Fatalf("it leads: %v, the other: %v, two at once: %v",
				leader.Stats().Leading, other.Stats().Leading, r.two.Load())
		}
	}
}
