package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestACallThatFailsAfterItsSourceIsGoneDegradesNothing: nothing would ask that API again.
func TestACallThatFailsAfterItsSourceIsGoneDegradesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w, cloud := t.Context(), newWorld(t), cloudtest.New(t)
		driver := cloudtest.NewDriver(cloud.Server.URL)
		t.Cleanup(driver.HTTP.CloseIdleConnections)
		sites := w.sites()
		var seen calls
		begun, goOn := make(chan struct{}), make(chan struct{})
		slow := heldDriver{driver, begun, goOn}
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, _ Request) (Result, error) {
			_, err := external.Reconcile(ctx, slow, cloudtest.Spec{Size: 7}, quickly...)
			return Result{}, err
		}), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		s := added(t, c, OwnsExternal(external.Configure(cloudtest.Client{Driver: driver}, withInterval(time.Minute))))
		must(t, sites.Create(ctx, sized("home", 7)))
		<-begun
		must(t, s.Remove(ctx))
		cloud.GoAway(false)
		close(goOn)
		time.Sleep(time.Hour)
		isOnly(t, c)
	})
}

// heldDriver holds its first look back.
type heldDriver struct {
	*cloudtest.Driver
	begun, goOn chan struct{}
}

func (d heldDriver) Observe(
	ctx context.Context, target external.Target,
) (external.Observation[cloudtest.Disk], error) {
	select {
	case <-d.goOn:
	default:
		close(d.begun)
		<-d.goOn
	}
	return d.Driver.Observe(ctx, target)
}

// TestOrphansOfASourceThatIsGoneAreNobodysToDelete.
func TestOrphansOfASourceThatIsGoneAreNobodysToDelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w, k := t.Context(), newWorld(t), newCluster(t)
		var seen calls
		c, _, _ := w.runningSites(&seen)
		k.Add(w.mapOf("ghostly", "Site", "ghost", c.Instance()))
		// Else the informer may have synced without it, and there is one sweep only.
		natstest.Eventually(t, "it is in the cache", func() bool { return k.has("ghostly") })
		s := added(t, c, OwnsKube(k.informer, WithDeleter(k)))
		natstest.Eventually(t, "it is an orphan", func() bool {
			list, err := c.engine.Orphans(lifecycle.OrphanFilter{})
			return err == nil && len(list.Orphans) == 1
		})
		must(t, s.Remove(ctx))
		list, err := c.engine.Orphans(lifecycle.OrphanFilter{})
		if err != nil || len(list.Orphans) > 0 {
			t.Errorf("orphans: %+v, %v", list, err)
		}
	})
}

// TestAMapperThatIsCalledAgainEndsWithItsSource, and is not called once more.
func TestAMapperThatIsCalledAgainEndsWithItsSource(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		var called, ended atomic.Int64
		c, _, _ := w.runningSites(&seen)
		pages := w.pages()
		must(t, pages.Create(ctx, newPage("index", "one")))
		s := added(t, c, Watches(pages, func(ctx context.Context, _ *page) ([]string, error) {
			if called.Add(1) > 1 {
				<-ctx.Done() // a try that takes long
				ended.Add(1)
			}
			return nil, errors.New("the world is unwell")
		}))
		natstest.Eventually(t, "it is called again", func() bool { return called.Load() == 2 })
		must(t, s.Remove(ctx))
		if ended.Load() != 1 {
			t.Error("it runs still")
		}
		time.Sleep(time.Hour)
		if n := called.Load(); n != 2 {
			t.Errorf("it was called %d times", n)
		}
	})
}

// TestBucketsOfOneNameInTwoPlacesAreNotBothOwned: a prune could not tell them apart.
func TestBucketsOfOneNameInTwoPlacesAreNotBothOwned(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, elsewhere := newWorld(t), newWorld(t)
		var seen calls
		c, _, _ := w.runningSites(&seen, Owns(w.pages()))
		_, err := c.AddSource(t.Context(), Owns(elsewhere.pages()))
		if err == nil || !strings.Contains(err.Error(), `both have a bucket "pages"`) {
			t.Errorf("got %v", err)
		}
		added(t, c, Owns(elsewhere.client("Page", "pages-elsewhere")))
	})
}
