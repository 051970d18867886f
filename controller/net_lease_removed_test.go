package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// replicas are controllers of one primary, whose reconciles last as long as their terms.
type replicas struct {
	w       *world
	proxy   *natstest.Proxy // before the first
	first   *Controller[*site]
	others  []*Controller[*site]
	running atomic.Int64
	two     atomic.Bool // two of them ran at once
}

// newReplicas has one that leads.
func newReplicas(t *testing.T, timing Option) *replicas {
	t.Helper()
	w := newWorld(t)
	must(t, w.sites().Create(t.Context(), newSite("home", "")))
	r := &replicas{w: w, proxy: natstest.StartProxy(t, w.server.URL())}
	_, js := natstest.Connect(t, r.proxy.URL())
	r.first = r.join(&world{t: t, server: w.server, js: js}, timing)
	natstest.Eventually(t, "it leads, and works", func() bool { return r.first.Stats().Running == 1 })
	return r
}

func (r *replicas) join(w *world, timing Option) *Controller[*site] {
	r.w.t.Helper()
	c, err := New("sites", w.sites(), ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
		if r.running.Add(1) > 1 {
			r.two.Store(true)
		}
		defer r.running.Add(-1)
		<-ctx.Done()
		return Result{}, ctx.Err()
	}), timing, WithGracePeriod(0))
	must(r.w.t, err)
	r.w.run(c)
	return c
}

// joins has one more, which looks at the lease.
func (r *replicas) joins(timing Option) {
	r.w.t.Helper()
	r.others = append(r.others, r.join(r.w.away(), timing))
	look()
}

// look lets the others look at the lease three times.
func look() { time.Sleep(3 * slowRenewalLook) }

// leadAlone fails unless the first leads, and none of the others.
func (r *replicas) leadAlone() {
	r.w.t.Helper()
	for i, c := range r.others {
		if c.Stats().Leading {
			r.w.t.Fatalf("other %d leads", i)
		}
	}
	if !r.first.Stats().Leading || r.two.Load() {
		r.w.t.Fatalf("the first leads: %v, two ran at once: %v", r.first.Stats().Leading, r.two.Load())
	}
}

// TestALeaseThatVanishesStaysWithItsHolder while it cannot see that. Others would create the key as soon as it is gone:
// those that saw the holder, and those that started later.
func TestALeaseThatVanishesStaysWithItsHolder(t *testing.T) {
	for name, vanish := range map[string]func(ctx context.Context, w *world) error{
		"deleted": func(ctx context.Context, w *world) error { return w.kv("sites-status").Delete(ctx, "_nagi.lease") },
		"purged":  func(ctx context.Context, w *world) error { return w.purge(ctx, "sites-status", "_nagi.lease") },
		"without a trace": func(ctx context.Context, w *world) error {
			stream, err := w.js.Stream(ctx, "KV_sites-status")
			if err != nil {
				return err
			}
			return stream.Purge(ctx, jetstream.WithPurgeSubject("$KV.sites-status._nagi.lease"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				r := newReplicas(t, slowRenewal)
				r.joins(slowRenewal)
				r.proxy.Blackhole()
				must(t, vanish(t.Context(), r.w))
				look()
				r.joins(slowRenewal)
				look()
				r.leadAlone()
				r.proxy.Resume()
				time.Sleep(time.Second)
				if r.w.lease().HolderIdentity == "" {
					t.Error("there is no lease when its holder is back")
				}
				r.leadAlone()
			})
		})
	}
}

// TestAHolderSeesThatItsLeaseIsGone and does not wait for its next renewal.
func TestAHolderSeesThatItsLeaseIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newReplicas(t, WithLeaseTiming(LeaseTiming{
			Duration: 10 * time.Minute, RenewDeadline: 5 * time.Minute, RetryPeriod: 4 * time.Minute,
		}))
		for range 3 {
			synctest.Wait() // a removal before the holder has heard of the lease would be no news to it
			must(t, r.w.purge(t.Context(), "sites-status", "_nagi.lease"))
			synctest.Wait()
			if r.w.lease().HolderIdentity == "" {
				t.Error("there is no lease")
			}
		}
		r.leadAlone()
	})
}

// TestALeaseOfALostBucketStaysWithItsHolder: nothing in the new bucket tells that there is one, but a replica that saw
// it knows.
func TestALeaseOfALostBucketStaysWithItsHolder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newReplicas(t, slowRenewal)
		r.joins(slowRenewal)
		ctx := t.Context()
		for range 3 {
			stream, err := r.w.js.Stream(ctx, "KV_sites-status")
			must(t, err)
			r.proxy.Blackhole()
			must(t, r.w.js.DeleteKeyValue(ctx, "sites-status"))
			_, err = r.w.js.CreateStream(ctx, stream.CachedInfo().Config)
			must(t, err)
			look()
			r.leadAlone()
			r.proxy.Resume()
			natstest.Eventually(t, "the lease is there again", func() bool {
				_, err := r.w.kv("sites-status").Get(ctx, "_nagi.lease")
				return err == nil
			})
			r.leadAlone()
		}
	})
}
