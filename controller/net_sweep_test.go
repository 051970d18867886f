package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/cache"
)

// TestWhatATeardownStillOwnsIsNoOrphan: primaries that somebody deleted are being torn down, which takes a while. The
// sweep leaves what they own to their teardown, and the brake has nothing to hold.
func TestWhatATeardownStillOwnsIsNoOrphan(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var finish atomic.Bool
		one := onePage(sites, pages)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) && !finish.Load() {
				return Result{RequeueAfter: 20 * time.Millisecond}, nil
			}
			return one(ctx, req)
		}), Owns(pages), WithResyncInterval(time.Second), WithWorkers(4))
		must(t, err)
		w.run(c)
		w.make(sites, many)
		w.settled(c, sites, many)
		natstest.Eventually(t, "each has a page", func() bool { return count(t, pages) == many })
		for i := range many {
			must(t, sites.Delete(t.Context(), siteName(i)))
		}
		sweeps := c.Stats().Sweeps
		natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+5 })
		if s := c.Stats(); s.Orphaned != 0 || s.BrakeEngaged != 0 || s.TornDown != 0 {
			t.Errorf("%d orphaned, the brake engaged %d times, %d torn down", s.Orphaned, s.BrakeEngaged, s.TornDown)
		}
		finish.Store(true)
		natstest.Eventually(t, "all are torn down", func() bool {
			return c.Stats().TornDown == many && count(t, pages) == 0
		})
		if s := c.Stats(); s.BrakeEngaged != 0 {
			t.Errorf("the brake engaged: %+v", s.Brake)
		}
	})
}

// TestWhatWasLeftIsNotForgottenByOneSweepThatDoesNotSeeIt: a cache may be a moment behind. If the note were removed at
// once, the next sweep would delete what was left on purpose.
func TestWhatWasLeftIsNotForgottenByOneSweepThatDoesNotSeeIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		c, err := New("sites", sites, onePage(sites, pages), Owns(pages), WithResyncInterval(0))
		must(t, err)
		r := w.run(c)
		home := newSite("home", "")
		home.Annotations = map[string]string{DeletionPolicyAnnotation: DeletionPolicyOrphan}
		must(t, sites.Create(ctx, home))
		natstest.Eventually(t, "it has a page", func() bool { return count(t, pages) == 1 })
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		r.halt()

		sweepOnce := func(owns Option) *Controller[*site] {
			c, err := New("sites", w.away().sites(), (&calls{}).reconciler(nil), owns,
				WithResyncInterval(0))
			must(t, err)
			r := w.run(c)
			natstest.Eventually(t, "it has swept", func() bool { return c.Stats().Sweeps == 1 })
			natstest.Eventually(t, "its queue is worked off", func() bool {
				s := c.Stats()
				return s.Ready == [3]int{} && s.Running == 0
			})
			r.halt()
			return c
		}
		sweepOnce(Owns(&unseen{w.away().pages()}))
		c = sweepOnce(Owns(w.away().pages()))
		if n := count(t, pages); n != 1 || c.Stats().Orphaned != 0 {
			t.Errorf("%d pages are left, %d orphaned; want the one that was left on purpose", n, c.Stats().Orphaned)
		}
	})
}

// unseen is a client whose cache lists nothing.
type unseen struct{ *entity.Client[*page] }

func (u *unseen) Informer() natsinformer.Informer { return unseenInformer{u.Client.Informer()} }

type unseenInformer struct{ natsinformer.Informer }

func (i unseenInformer) GetStore() cache.Store { return unseenStore{i.Informer.GetStore()} }

type unseenStore struct{ cache.Store }

func (unseenStore) List() []any { return nil }
