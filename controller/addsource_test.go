package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// consumers counts those of a bucket's stream.
func (w *world) consumers(bucket string) int {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	info, err := stream.Info(w.t.Context())
	must(w.t, err)
	return info.State.Consumers
}

// added adds a source that syncs.
func added(t *testing.T, c *Controller[*site], source Option) *AddedSource {
	t.Helper()
	s, err := c.AddSource(t.Context(), source)
	must(t, err)
	must(t, s.WaitSynced(t.Context()))
	return s
}

// isOnly fails unless the primary is the only source.
func isOnly(t *testing.T, c *Controller[*site]) {
	t.Helper()
	if all := c.engine.Sources(); len(all) != 1 {
		t.Errorf("sources are left: %v", all)
	}
	if external := c.Stats().External; len(external) > 0 {
		t.Errorf("left are %v", external)
	}
	for name, err := range c.Stats().Degraded {
		if name != "teardown" { // which goes on in a moment
			t.Errorf("%s is left degraded: %v", name, err)
		}
	}
	for name := range c.Stats().Sources {
		if !strings.HasPrefix(name, "primary") {
			t.Errorf("%s is left in the stats", name)
		}
	}
}

// TestASourceComesAndGoesWhileTheControllerRuns: its events make keys due, its secondaries go with their primary, and
// when it is gone nothing of it is left, on the server either.
func TestASourceComesAndGoesWhileTheControllerRuns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen)
		pages := w.pages()
		must(t, pages.Create(ctx, w.ownedPage("index", "away")))
		for round := range 3 {
			before := seen.with("home", OperationSecondary)
			s := added(t, c, Owns(pages))
			natstest.Eventually(t, "all are reconciled once more", func() bool {
				return seen.with("home", OperationSecondary) == before+1
			})
			name := fmt.Sprintf("page-%d", round)
			must(t, pages.Create(ctx, w.ownedPage(name, "home")))
			natstest.Eventually(t, "its owner hears of a page", func() bool {
				return seen.with("home", OperationSecondary) == before+2
			})
			if n := w.consumers("pages"); n != 1 {
				t.Errorf("%d consumers of the pages", n)
			}
			must(t, s.Remove(ctx))
			must(t, s.Remove(ctx))
			isOnly(t, c)
			natstest.Eventually(t, "nobody watches the pages", func() bool { return w.consumers("pages") == 0 })
			must(t, pages.Delete(ctx, name))
			time.Sleep(time.Minute)
			if n := seen.with("home", OperationSecondary); n != before+2 {
				t.Errorf("a source that is gone was heard %d times", n-before-2)
			}
			if err := s.WaitSynced(ctx); err == nil || !strings.Contains(err.Error(), "removed") {
				t.Errorf("waiting for one that is gone: %v", err)
			}
		}
		added(t, c, Owns(pages))
		must(t, sites.Delete(ctx, "away"))
		natstest.Eventually(t, "what a primary owned goes with it", func() bool {
			return c.Stats().TornDown == 1 && !exists(t, pages, "index")
		})
	})
}

// TestATeardownDoesNotLookWhereASourceIsGone: what the primary owned there stays.
func TestATeardownDoesNotLookWhereASourceIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen)
		pages := w.pages()
		s := added(t, c, Owns(pages))
		must(t, pages.Create(ctx, w.ownedPage("index", "home")))
		must(t, s.Remove(ctx))
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		if !exists(t, pages, "index") {
			t.Error("the page is gone")
		}
		added(t, c, Owns(pages))
		natstest.Eventually(t, "the sweep finds it when the source is back", func() bool { return !exists(t, pages, "index") })
	})
}

// TestNothingIsDeletedBecauseOfWhatAnAddedSourceDoesNotShowYet: a teardown waits for it, and ends when it has come, or
// is taken away again.
func TestNothingIsDeletedBecauseOfWhatAnAddedSourceDoesNotShowYet(t *testing.T) {
	for _, comes := range []bool{true, false} {
		t.Run(fmt.Sprintf("it comes: %v", comes), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx, w, k := t.Context(), newWorld(t), newLateCluster(t)
				var seen calls
				c, sites, _ := w.runningSites(&seen)
				k.Add(w.ownedMap("settings", "away"))
				source := OwnsKube(k.informer, WithDeleter(k), WithSourceName("widgets"))
				s, err := c.AddSource(ctx, source)
				must(t, err)
				k.start(t)
				must(t, sites.Delete(ctx, "away"))
				time.Sleep(20 * time.Minute)
				if n, asked := c.Stats().TornDown, k.asked(); n != 0 || len(asked) > 0 {
					t.Errorf("torn down %d, asked to delete %v", n, asked)
				}
				if err := degradedOf(c, "OwnsKube widgets"); err == nil ||
					!strings.Contains(err.Error(), "it was added while the controller runs") {
					t.Errorf("degraded: %v", err)
				}
				soon, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if err := s.WaitSynced(soon); err == nil || !strings.Contains(err.Error(), "could not find the requested") {
					t.Errorf("waited: %v", err)
				}
				if comes {
					k.installed.Store(true)
					must(t, s.WaitSynced(ctx))
				} else {
					must(t, s.Remove(ctx))
					isOnly(t, c)
				}
				natstest.Eventually(t, "the teardown ends", func() bool { return c.Stats().TornDown == 1 })
				if n := len(k.asked()); comes && n != 1 || !comes && n != 0 {
					t.Errorf("asked to delete %v", k.asked())
				}
				isHealthy(t, c)
			})
		})
	}
}

// TestWhatWaitsForAnAPIGoesOnWhenItsSourceIsTakenAway, and works with it when it is added again.
func TestWhatWaitsForAnAPIGoesOnWhenItsSourceIsTakenAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w, cloud := t.Context(), newWorld(t), cloudtest.New(t)
		driver := cloudtest.NewDriver(cloud.Server.URL)
		t.Cleanup(driver.HTTP.CloseIdleConnections)
		sites := w.sites()
		var seen calls
		var ignore atomic.Bool
		disks := disksOf(sites, driver, quickly...)
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if ignore.Load() {
				return Result{}, nil
			}
			return disks(ctx, req)
		}), WithBackoff(5*time.Millisecond, 50*time.Millisecond))
		must(t, err)
		w.run(c)
		source := OwnsExternal(external.Configure(cloudtest.Client{Driver: driver}, withInterval(time.Minute)))
		s := added(t, c, source)
		cloud.GoAway(false)
		must(t, sites.Create(ctx, sized("home", 7)))
		natstest.Eventually(t, "it waits for the API", func() bool { return c.Stats().External["Disk"].Waiting == 1 })
		if _, err := c.AddSource(ctx, source); err == nil || !strings.Contains(err.Error(), "this kind already") {
			t.Errorf("a second one of the kind: %v", err)
		}
		ignore.Store(true)
		must(t, s.Remove(ctx))
		isOnly(t, c)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		polls := cloud.Called("GET disks")
		time.Sleep(time.Hour)
		if n := cloud.Called("GET disks"); n != polls {
			t.Errorf("an API whose source is gone was polled %d times", n-polls)
		}
		ignore.Store(false)
		cloud.ComeBack()
		added(t, c, source)
		natstest.Eventually(t, "it has its disk", func() bool { return cloud.Count() == 1 })
	})
}

// TestAMapperThatFailsIsNotCalledWhenItsSourceIsGone.
func TestAMapperThatFailsIsNotCalledWhenItsSourceIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		var called atomic.Int64
		c, _, _ := w.runningSites(&seen)
		pages := w.pages()
		must(t, pages.Create(ctx, newPage("index", "one")))
		s := added(t, c, Watches(pages, func(context.Context, *page) ([]string, error) {
			called.Add(1)
			return nil, errors.New("the world is unwell")
		}))
		natstest.Eventually(t, "it is called again", func() bool { return called.Load() > 3 })
		if e := c.Explain("home"); len(e.Missing) != 1 {
			t.Errorf("missing: %v", e.Missing)
		}
		must(t, s.Remove(ctx))
		n := called.Load()
		time.Sleep(time.Hour)
		if more := called.Load() - n; more > 0 {
			t.Errorf("it was called %d times more", more)
		}
		if e := c.Explain("home"); len(e.Missing) != 0 {
			t.Errorf("missing: %v", e.Missing)
		}
	})
}

// TestARemovalWaitsForACallback as long as it may, and goes on by itself.
func TestARemovalWaitsForACallback(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, _, _ := w.runningSites(&seen)
		keys, goOn := make(chan string), make(chan struct{})
		pages := w.pages()
		s := added(t, c, Watches(pages, func(context.Context, *page) ([]string, error) {
			<-goOn // whatever its context says
			return nil, nil
		}))
		must(t, pages.Create(ctx, newPage("index", "one")))
		time.Sleep(time.Second)
		other := added(t, c, WatchesKeys("news", keys))
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := s.Remove(soon)
		close(goOn)
		if err == nil || !strings.Contains(err.Error(), "has not returned") {
			t.Errorf("while a mapper runs: %v", err)
		}
		must(t, s.Remove(ctx))
		keys <- "home"
		natstest.Eventually(t, "the other is heard", func() bool { return seen.with("home", OperationTertiary) == 1 })
		must(t, other.Remove(ctx))
		isOnly(t, c)
		select {
		case keys <- "home":
			t.Error("the channel is read still")
		case <-time.After(time.Minute):
		}
	})
}

// TestAReconcileThatBeganBeforeItsSourceWasPrunedLosesNothing: of what it wrote before, the prune knows nothing.
func TestAReconcileThatBeganBeforeItsSourceWasPrunedLosesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		sites, pages := w.sites(), w.pages()
		wrote, goOn := make(chan struct{}), make(chan struct{})
		var rounds atomic.Int64
		write := func(ctx context.Context, name string) error {
			_, err := CreateOrUpdate(ctx, pages, newPage(name, ""), func(*page) error { return nil })
			return err
		}
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			first := rounds.Add(1) == 1
			err := write(ctx, "a")
			if first {
				close(wrote)
				<-goOn
			}
			return Result{}, errors.Join(err, write(ctx, "b"))
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		<-wrote
		added(t, c, Owns(pages, WithPrune()))
		close(goOn)
		natstest.Eventually(t, "it is reconciled again", func() bool { return c.Stats().Reconciles > 1 })
		time.Sleep(time.Minute)
		if n := c.Stats().Pruned; n != 0 || !exists(t, pages, "a") || !exists(t, pages, "b") {
			t.Errorf("pruned %d", n)
		}
	})
}

// TestASourceInAnotherAccountComesAndGoes: it has a connection of its own, to another server.
func TestASourceInAnotherAccountComesAndGoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w, elsewhere := t.Context(), newWorld(t), newWorld(t)
		var seen calls
		c, _, _ := w.runningSites(&seen)
		themes := elsewhere.pages()
		home := func(context.Context, *page) ([]string, error) { return []string{"home"}, nil }
		s := added(t, c, Watches(themes, home))
		woken := func(n int) func() bool {
			return func() bool { return seen.with("home", OperationTertiary) == n }
		}
		natstest.Eventually(t, "all are reconciled once more", woken(1))
		must(t, themes.Create(ctx, newPage("dark", "")))
		natstest.Eventually(t, "its news comes", woken(2))
		elsewhere.server.Stop()
		natstest.Eventually(t, "it is degraded", func() bool { return degradedOf(c, "Watches Page") != nil })
		must(t, s.Remove(ctx))
		isOnly(t, c)
	})
}

// TestWhatIsNoSourceIsRefused, and nothing has changed then.
func TestWhatIsNoSourceIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		keys := make(chan string)
		before, err := c.AddSource(ctx, WatchesKeys("news", keys))
		must(t, err)
		refuses := func(says string, source Option) {
			t.Helper()
			if s, err := c.AddSource(ctx, source); s != nil || err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, %v; want %q", s, err, says)
			}
		}
		r := w.run(c)
		must(t, before.WaitSynced(ctx))
		keys <- "home"
		s := added(t, c, Owns(pages))
		refuses("the option is nil", nil)
		refuses("describes no source", WithWorkers(2))
		refuses("describes no source", WithPrimary(WithPredicate(GenerationChanged())))
		refuses("Owns(Page) is given twice", Owns(pages))
		refuses("is given twice", WatchesKeys("news", keys))
		refuses("WithSelfOwnership", Owns(sites))
		refuses("a client is needed", Owns[*page](nil))
		refuses("index", WatchesIndexed(pages, "theme"))
		if n := len(c.engine.Sources()); n != 3 {
			t.Errorf("%d sources", n)
		}
		must(t, s.Remove(ctx))
		must(t, before.Remove(ctx))
		added(t, c, WatchesKeys("news", keys))
		r.halt()
		refuses("has stopped", Owns(pages))
		must(t, before.Remove(ctx))
	})
}

// TestASourceThatIsAddedWhileTheFirstOnesSyncWaitsForThem.
func TestASourceThatIsAddedWhileTheFirstOnesSyncWaitsForThem(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		k := newLateCluster(t)
		var seen calls
		c, err := New("sites", w.sites(), seen.reconciler(nil), OwnsKube(k.informer, WithDeleter(k)))
		must(t, err)
		k.start(t)
		w.run(c)
		time.Sleep(time.Second)
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := c.AddSource(soon, Owns(w.pages())); err == nil || !strings.Contains(err.Error(), "have not synced yet") {
			t.Errorf("got %v", err)
		}
		k.installed.Store(true)
		added(t, c, Owns(w.pages()))
	})
}

// TestSourcesComeAndGoAtOnce, beside reconciles and teardowns.
func TestSourcesComeAndGoAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, sites, r := w.runningSites(&seen, WithWorkers(4))
		var work sync.WaitGroup
		for i := range 4 {
			client := w.client("Page", fmt.Sprintf("pages-%d", i))
			work.Go(func() {
				for range 5 {
					s, err := c.AddSource(ctx, Owns(client))
					if err != nil {
						t.Error(err)
						return
					}
					must(t, client.Create(ctx, w.ownedPage("index", "home")))
					if err := errors.Join(s.WaitSynced(ctx), s.Remove(ctx), client.Delete(ctx, "index")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range 20 {
			name := fmt.Sprint("site-", i)
			must(t, sites.Create(ctx, newSite(name, "")))
			must(t, sites.Delete(ctx, name))
			c.Explain(name)
			c.Stats()
		}
		work.Wait()
		isOnly(t, c)
		natstest.Eventually(t, "nothing is owed", func() bool {
			for i := range 20 {
				if _, err := sites.Record(ctx, fmt.Sprint("site-", i)); !apierrors.IsNotFound(err) {
					return false
				}
			}
			return true
		})
		r.halt()
	})
}
