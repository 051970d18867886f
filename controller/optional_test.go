package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// lateCluster is a cluster whose CustomResourceDefinition is not installed before install.
type lateCluster struct {
	*cluster
	installed atomic.Bool
}

func (k *lateCluster) List(options metav1.ListOptions) (runtime.Object, error) {
	if !k.installed.Load() {
		return nil, apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: "widgets"}, "", "", 0, true)
	}
	return k.FakeControllerSource.List(options)
}

func newLateCluster(t *testing.T) *lateCluster {
	t.Helper()
	k := &lateCluster{cluster: &cluster{FakeControllerSource: fcache.NewFakeControllerSource()}}
	k.informer = cache.NewSharedIndexInformer(k, &corev1.ConfigMap{}, 0, cache.Indexers{})
	return k
}

// start runs the informer, as its user does once the controller is made.
func (k *lateCluster) start(t *testing.T) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		k.informer.Run(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		k.Shutdown()
	})
}

// degradedOf returns what is degraded under a name that has the prefix.
func degradedOf[T entity.IEntity](c *Controller[T], prefix string) error {
	for name, err := range c.Stats().Degraded {
		if strings.HasPrefix(name, prefix) {
			return err
		}
	}
	return nil
}

// TestAControllerBeginsWithoutAnOptionalSource, says so, deletes nothing because of what it does not show, and makes up
// for it when the source comes.
func TestAControllerBeginsWithoutAnOptionalSource(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w, k := t.Context(), newWorld(t), newLateCluster(t)
		pages := w.pages()
		var seen calls
		sites := w.sites()
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(0),
			OwnsKube(k.informer, WithDeleter(k), WithOptional(), WithSourceName("widgets")))
		must(t, err)
		k.start(t)
		must(t, sites.Create(ctx, newSite("home", "one")))
		must(t, sites.Create(ctx, newSite("away", "one")))
		began := time.Now()
		w.run(c)
		natstest.Eventually(t, "the sites are reconciled", func() bool { return seen.count("home")+seen.count("away") == 2 })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it began after %v", took)
		}
		missing := degradedOf(c, "OwnsKube widgets")
		if missing == nil || !strings.Contains(missing.Error(), "not synced") ||
			!strings.Contains(missing.Error(), "server could not find the requested resource") {
			t.Errorf("degraded: %v", missing)
		}

		must(t, pages.Create(ctx, w.ownedPage("index", "away")))
		k.Add(w.ownedMap("settings", "away"))
		must(t, sites.Delete(ctx, "away"))
		natstest.Eventually(t, "what is known goes", func() bool { return !exists(t, pages, "index") })
		natstest.Eventually(t, "the teardown waits for the rest", func() bool {
			r, err := sites.Record(ctx, "away")
			return err == nil && strings.Contains(messageOf(r, entity.ConditionDeleting), "has not synced")
		})
		time.Sleep(20 * time.Minute)
		if s := c.Stats(); s.TornDown != 0 || len(k.asked()) != 0 || s.Failures+uint64(s.Failing) != 0 {
			t.Errorf("torn down %d, asked to delete %v, %d failures, while the source was away",
				s.TornDown, k.asked(), s.Failures)
		}
		if n := seen.with("away", OperationDelete); n != 1 {
			t.Errorf("the reconciler was called %d times for one delete", n)
		}
		if e := c.Explain("away"); e.State != StateDeleting || len(e.Missing) != 1 {
			t.Errorf("explained: %+v", e)
		}

		k.installed.Store(true)
		natstest.Eventually(t, "the source works", func() bool { return degradedOf(c, "OwnsKube widgets") == nil })
		came := time.Now()
		natstest.Eventually(t, "the teardown ends, and the primary is reconciled once more", func() bool {
			return c.Stats().TornDown == 1 && seen.with("home", OperationSecondary) == 1
		})
		if took := time.Since(came); took > time.Second {
			t.Errorf("what waited for the source went on %v after it came", took)
		}
		if k.has("settings") || len(k.asked()) != 1 {
			t.Errorf("what the site owned is left; asked to delete %v", k.asked())
		}
	})
}

// TestATeardownThatOwnsNothingInALateSourceEndsWhenThatComes, though no event tells it: its pause has grown to minutes.
func TestATeardownThatOwnsNothingInALateSourceEndsWhenThatComes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, k := newWorld(t), newLateCluster(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen, WithBackoff(time.Millisecond, 5*time.Minute),
			OwnsKube(k.informer, WithDeleter(k), WithOptional()))
		k.start(t)
		must(t, sites.Delete(t.Context(), "away"))
		time.Sleep(20 * time.Minute)
		k.installed.Store(true)
		natstest.Eventually(t, "the source has come", k.informer.HasSynced)
		time.Sleep(time.Second)
		if n := c.Stats().TornDown; n != 1 {
			t.Errorf("%d teardowns have ended a second after the source came: %s", n, c.Explain("away").Says)
		}
	})
}

// messageOf is the message of a condition.
func messageOf(r *entity.Record, kind string) string {
	for _, c := range r.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// edge is a bucket of pages that is not there before put.
func (w *world) edge() (pages *entity.Client[*page], put func()) {
	w.t.Helper()
	pages = w.client("Page", "pages", func(cfg *entity.Config) { cfg.BindOnly, cfg.OpenLater = true, true })
	return pages, func() { w.pages() }
}

// TestAnOptionalStoreThatIsAwayReadsAsAwayAndNotAsEmpty, at once: a reconcile does not wait for it.
func TestAnOptionalStoreThatIsAwayReadsAsAwayAndNotAsEmpty(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		pages, put := w.edge()
		sites := w.sites()
		var seen calls
		var answers atomic.Pointer[map[string]error] // nil once the store is there
		c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			began := time.Now()
			if pages.Informer().HasSynced() {
				answers.Store(nil)
				return Result{}, nil
			}
			reads := map[string]error{}
			_, reads["Get"] = pages.Lister().Get("index")
			_, reads["List"] = pages.Lister().List(labels.Everything())
			_, reads["OwnedBy"] = pages.Lister().OwnedBy("Site", "home")
			if took := time.Since(began); took != 0 {
				t.Errorf("the reads took %v", took)
			}
			answers.Store(&reads)
			return Result{}, nil
		}), Watches(pages, func(context.Context, *page) ([]string, error) { return []string{"home"}, nil }, WithOptional()),
			WithResyncInterval(0))
		must(t, err)
		must(t, sites.Create(ctx, newSite("home", "one")))
		w.run(c)
		natstest.Eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles == 1 })
		for read, err := range *answers.Load() {
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("%s: %v", read, err)
			}
		}
		if err := degradedOf(c, "Watches Page"); !strings.Contains(err.Error(), "not synced") {
			t.Errorf("degraded: %v", err)
		}
		put()
		natstest.Eventually(t, "it is reconciled with the store", func() bool {
			return seen.with("home", OperationTertiary) == 1 && answers.Load() == nil
		})
		isHealthy(t, c)
	})
}

// TestWhatWasLeftIsNotForgottenWhileItsSourceIsAway, or the sweep would take it for garbage when the source comes.
func TestWhatWasLeftIsNotForgottenWhileItsSourceIsAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		k := newLateCluster(t)
		k.installed.Store(true)
		sites := w.sites()
		run := func(k *lateCluster) (*Controller[*site], *running) {
			var seen calls
			c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(time.Minute),
				OwnsKube(k.informer, WithDeleter(k), WithOptional()))
			must(t, err)
			k.start(t)
			return c, w.run(c)
		}
		c, r := run(k)
		left := newSite("home", "one")
		left.Annotations = map[string]string{DeletionPolicyAnnotation: DeletionPolicyOrphan}
		must(t, sites.Create(ctx, left))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		m := w.ownedMap("settings", "home")
		k.Add(m)
		natstest.Eventually(t, "it is cached", func() bool { return k.has("settings") })
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		r.halt()

		later := newLateCluster(t)
		later.Add(m)
		c, _ = run(later)
		time.Sleep(5 * time.Minute) // of sweeps without the source
		later.installed.Store(true)
		natstest.Eventually(t, "it has come", func() bool { return later.has("settings") })
		time.Sleep(5 * time.Minute) // of sweeps with it
		if n := c.Stats().Sweeps; n < 9 {
			t.Errorf("swept %d times", n)
		}
		if len(later.asked()) > 0 || !later.has("settings") {
			t.Error("what was left on purpose was deleted as garbage")
		}
	})
}

// TestAnOptionalAPIMayBeAwayAtTheStart, though it has never been listed.
func TestAnOptionalAPIMayBeAwayAtTheStart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := quick
		config.Optional = true
		w := newCloudWorld(t, config, leaveDisks)
		w.cloud.GoAway(false)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 7)))
		natstest.Eventually(t, "it is reconciled", func() bool { return w.reconciled("home") })
		if err := degradedOf(w.c, "OwnsExternal"); err == nil || !strings.Contains(err.Error(), "not synced") {
			t.Errorf("degraded: %v", err)
		}
		w.cloud.ComeBack()
		natstest.Eventually(t, "its owner hears that it has come", func() bool {
			return w.seen.with("home", OperationExternal) == 1
		})
		isHealthy(t, w.c)
	})
}

// TestAnIdOfTheInstallationThatWasMadeWithoutASourceIsDoubtedWhenItComes: the status bucket may have been lost.
func TestAnIdOfTheInstallationThatWasMadeWithoutASourceIsDoubtedWhenItComes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, k := newWorld(t), newLateCluster(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0),
			OwnsKube(k.informer, WithDeleter(k), WithOptional()))
		must(t, err)
		k.start(t)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		m := w.mapOf("settings", "Site", "home", "lost")

		m.Annotations[entity.OwnerRevisionAnnotation] = "5@2026-01-01T00:00:00Z"
		k.Add(m)
		k.installed.Store(true)
		natstest.Eventually(t, "it is told", func() bool { return degradedOf(c, "installation") != nil })
		if err := degradedOf(c, "installation"); !strings.Contains(err.Error(), `"lost" (1 objects, such as "shop/settings"`) ||
			!strings.Contains(err.Error(), "nats kv put sites-status _nagi.instance lost") {
			t.Errorf("told %v", err)
		}
	})
}

// TestWhatNobodyOwnsInALateSourceIsSwept though there is no resync, and no event tells of it.
func TestWhatNobodyOwnsInALateSourceIsSwept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w, k := t.Context(), newWorld(t), newLateCluster(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0),
			OwnsKube(k.informer, WithDeleter(k), WithOptional()))
		must(t, err)
		k.start(t)
		must(t, sites.Create(ctx, newSite("gone", "one"))) // and gone before any controller has seen it
		must(t, sites.Delete(ctx, "gone"))
		w.run(c)
		natstest.Eventually(t, "it has swept without the source", func() bool { return c.Stats().Sweeps == 1 })
		k.Add(w.ownedMap("settings", "gone"))
		k.installed.Store(true)
		natstest.Eventually(t, "it is swept", func() bool { return len(k.asked()) == 1 && !k.has("settings") })
	})
}

func TestThePrimaryCannotBeOptional(t *testing.T) {
	t.Parallel()
	_, err := applyOptions([]Option{WithPrimary(WithOptional())})
	if err == nil || !strings.Contains(err.Error(), "WithOptional") {
		t.Errorf("got %v", err)
	}
}
