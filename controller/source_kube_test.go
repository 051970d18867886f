package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// cluster is client-go's fake of an API server, with an informer over it and a deleter that works as a real one would.
type cluster struct {
	*fcache.FakeControllerSource
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	refuse  error // what the next deletes return; nil deletes
	deletes []metav1.Object
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server, informer := kubeInformer(t)
	return &cluster{FakeControllerSource: server, informer: informer}
}

// errPanics has the deleter panic instead.
var errPanics = errors.New("tick tack")

// Delete implements Deleter.
func (c *cluster) Delete(_ context.Context, obj metav1.Object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deletes = append(c.deletes, obj)
	if errors.Is(c.refuse, errPanics) {
		panic(c.refuse)
	}
	if c.refuse != nil {
		return c.refuse
	}
	c.FakeControllerSource.Delete(obj.(*corev1.ConfigMap).DeepCopy())
	return nil
}

func (c *cluster) refusing(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = err
}

func (c *cluster) asked() []metav1.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]metav1.Object(nil), c.deletes...)
}

func (c *cluster) has(name string) bool {
	_, exists, err := c.informer.GetStore().GetByKey("shop/" + name)
	return err == nil && exists
}

// ownedMap is a ConfigMap that the site of that key owns, of this installation.
func (w *world) ownedMap(name, owner string) *corev1.ConfigMap {
	w.t.Helper()
	m := configMap(name, "one")
	m.UID = types.UID("uid-of-" + name)
	p := w.ownedPage(name, owner)
	m.Annotations, m.Labels = p.Annotations, p.Labels
	return m
}

func (w *world) mapOf(name, kind, key, instance string) *corev1.ConfigMap {
	m := configMap(name, "one")
	entity.SetOwner(m, kind, key, instance)
	return m
}

// runningSites is a controller with the given sources that has reconciled the sites "home" and "away", once each.
func (w *world) runningSites(seen *calls, opts ...Option) (*Controller[*site], *entity.Client[*site], *running) {
	w.t.Helper()
	sites := w.sites()
	opts = append([]Option{WithBackoff(time.Millisecond, 10*time.Millisecond), WithResyncInterval(0), shortGrace()},
		opts...)
	c, err := New("sites", sites, seen.reconciler(nil), opts...)
	must(w.t, err)
	r := w.run(c)
	for _, key := range []string{"home", "away"} {
		must(w.t, sites.Create(w.t.Context(), newSite(key, "one")))
		natstest.Eventually(w.t, "the site is reconciled", func() bool { return seen.count(key) == 1 })
	}
	return c, sites, r
}

func TestEventsOfOwnedKubernetesObjectsWakeTheirOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		var seen calls
		w.runningSites(&seen, OwnsKube(k.informer))
		m := w.ownedMap("settings", "home")
		k.Add(m)
		woken := func(n int) func() bool {
			return func() bool { return seen.with("home", OperationSecondary) == n }
		}
		natstest.Eventually(t, "created", woken(1))
		m = m.DeepCopy()
		m.Data["value"] = "two"
		k.Modify(m)
		natstest.Eventually(t, "updated", woken(2))
		k.FakeControllerSource.Delete(m.DeepCopy())
		natstest.Eventually(t, "deleted", woken(3))
		if n := seen.count("away"); n != 1 {
			t.Errorf("the other site was woken %d times: %v", n-1, seen.of("away"))
		}
	})
}

// TestDeleteWithUnknownFinalStateIsADelete: the watch lost the delete, and the new list tells of it by absence.
func TestDeleteWithUnknownFinalStateIsADelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		var seen calls
		var unknown atomic.Int32
		var deletes, others atomic.Int32
		_, err := k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
			if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				unknown.Add(1)
			}
		}})
		must(t, err)
		onlyDeletes := PredicateFuncs{
			CreateFunc: func(metav1.Object) bool { others.Add(1); return false },
			UpdateFunc: func(metav1.Object, metav1.Object) bool { others.Add(1); return false },
			DeleteFunc: func(metav1.Object) bool { deletes.Add(1); return true },
		}
		w.runningSites(&seen, OwnsKube(k.informer, WithPredicate(onlyDeletes)),
			WatchesKube(k.informer, func(_ context.Context, obj metav1.Object) ([]string, error) {
				return []string{"away"}, nil
			}, WithPredicate(onlyDeletes)))
		m := w.ownedMap("settings", "home")
		k.Add(m)
		natstest.Eventually(t, "both see it", func() bool { return others.Load() == 2 })
		k.DeleteDropWatch(m.DeepCopy())
		k.ResetWatch()
		natstest.Eventually(t, "the owner is woken, and whom the mapper names", func() bool {
			return seen.with("home", OperationSecondary) == 1 && seen.with("away", OperationTertiary) == 1 &&
				unknown.Load() > 0 // by a handler of its own
		})
		if unknown.Load() != 1 || deletes.Load() != 2 {
			t.Errorf("%d deletes with an unknown final state, %d asked of predicates; want 1 and 2", unknown.Load(),
				deletes.Load())
		}
	})
}

func TestObjectsOfOtherOwnersWakeNobody(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		pages := w.pages()
		var seen calls
		c, _, _ := w.runningSites(&seen, OwnsKube(k.informer), Owns(pages))
		instance := c.engine.InstanceID()
		owners := map[string][3]string{
			"another-kind":     {"Shop", "home", instance},
			"another-instance": {"Site", "home", "another-installation"},
			"no-kind":          {"", "home", instance},
			"no-key":           {"Site", "", instance},
			"malformed-key":    {"Site", "shop/home", instance},
			"reserved-key":     {"Site", "_nagi.lease", instance},
		}
		for name, o := range owners {
			k.Add(w.mapOf(name, o[0], o[1], o[2]))
			p := named(name)
			entity.SetOwner(p, o[0], o[1], o[2])
			must(t, pages.Create(t.Context(), p))
		}
		k.Add(configMap("no-owner", "one"))
		must(t, pages.Create(t.Context(), named("no-owner")))
		k.Add(w.ownedMap("last", "away"))
		natstest.Eventually(t, "the last map", func() bool { return seen.with("away", OperationSecondary) == 1 })
		must(t, pages.Create(t.Context(), w.ownedPage("last", "away")))
		natstest.Eventually(t, "the last page", func() bool { return seen.with("away", OperationSecondary) == 2 })
		idle(t, c)
		if n := seen.count("home"); n != 1 {
			t.Errorf("woken %d times by what it does not own: %v", n-1, seen.of("home"))
		}
		if n := c.Stats().Foreign; n != 2 {
			t.Errorf("%d objects of the other installation counted, want 2", n)
		}
	})
}

func TestAnObjectThatChangesOwnersWakesBoth(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		var seen calls
		w.runningSites(&seen, OwnsKube(k.informer))
		k.Add(w.ownedMap("settings", "home"))
		natstest.Eventually(t, "its owner", func() bool { return seen.with("home", OperationSecondary) == 1 })
		k.Modify(w.ownedMap("settings", "away"))
		natstest.Eventually(t, "the old and the new owner", func() bool {
			return seen.with("home", OperationSecondary) == 2 && seen.with("away", OperationSecondary) == 1
		})
	})
}

func TestTheCascadeDeletesKubernetesObjectsThroughTheDeleter(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen, OwnsKube(k.informer, WithDeleter(k)))
		for name, owner := range map[string]string{"a": "home", "b": "home", "c": "away"} {
			k.Add(w.ownedMap(name, owner))
		}
		k.Add(w.mapOf("foreign", "Site", "home", "another-installation"))
		k.Add(w.mapOf("other-kind", "Shop", "home", c.engine.InstanceID()))
		natstest.Eventually(t, "all are in the cache", func() bool {
			return len(k.informer.GetStore().ListKeys()) == 5
		})
		began := time.Now()
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
		if k.has("a") || k.has("b") {
			t.Error("the teardown is finished before the cache shows that the objects are gone")
		}
		for _, name := range []string{"c", "foreign", "other-kind"} {
			if !k.has(name) {
				t.Errorf("%q was deleted, which the site did not own", name)
			}
		}
		asked := k.asked()
		for _, obj := range asked {
			if name := obj.GetName(); name != "a" && name != "b" {
				t.Errorf("the deleter was asked for %q", name)
			}
			if want := types.UID("uid-of-" + obj.GetName()); obj.GetUID() != want || obj.GetResourceVersion() == "" {
				t.Errorf("%q is to be deleted at uid %q and version %q: the deleter cannot make a precondition of it",
					obj.GetName(), obj.GetUID(), obj.GetResourceVersion())
			}
		}
		// Once for each, and again where the cache is late: after a while, or when it shows that the other is gone.
		most := 4 + 2*int(time.Since(began)/lifecycle.CheckInterval)
		if n := int(c.Stats().Cascaded); n < 2 || n > most || n != len(asked) {
			t.Errorf("%d deletes counted, the deleter was asked %d times, want 2 to %d", n, len(asked), most)
		}
	})
}

// TestADeleterThatFailsIsAskedAgain until it succeeds, with the object as it is by then; the teardown waits for it.
func TestADeleterThatFailsIsAskedAgain(t *testing.T) {
	for name, refusal := range map[string]error{
		"error": errors.New("the API server is unwell"),
		"panic": errPanics,
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "settings",
			errors.New("the precondition failed")),
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := newCluster(t)
				var seen calls
				c, sites, _ := w.runningSites(&seen, OwnsKube(k.informer, WithDeleter(DeleterFunc(k.Delete))))
				k.refusing(refusal)
				m := w.ownedMap("settings", "home")
				k.Add(m)
				natstest.Eventually(t, "it is in the cache", func() bool { return k.has("settings") })
				must(t, sites.Delete(t.Context(), "home"))
				natstest.Eventually(t, "the deleter is asked again", func() bool { return len(k.asked()) >= 3 })
				if s := c.Stats(); s.TornDown != 0 || s.Failures == 0 || noRecord(t, sites, "home")() {
					t.Errorf("%d torn down, %d failures; want none and some, and the anchor there", s.TornDown, s.Failures)
				}
				m = m.DeepCopy()
				m.Data["value"] = "two"
				k.Modify(m)
				natstest.Eventually(t, "the cache has the latest version", func() bool {
					item, _, err := k.informer.GetStore().GetByKey("shop/settings")
					obj, ok := source.MetaObject(item)
					return err == nil && ok && obj.GetResourceVersion() == m.ResourceVersion
				})
				k.refusing(nil)
				natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
				asked := k.asked()
				if last := asked[len(asked)-1]; last.GetResourceVersion() != m.ResourceVersion {
					t.Errorf("deleted at version %s, want the latest, %s", last.GetResourceVersion(), m.ResourceVersion)
				}
			})
		})
	}
}

func TestWithoutADeleterObjectsAreLeftAndNotWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen, OwnsKube(k.informer))
		k.Add(w.ownedMap("settings", "home"))
		natstest.Eventually(t, "it is in the cache", func() bool { return k.has("settings") })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
		if !k.has("settings") {
			t.Error("the object is gone")
		}
	})
}

// TestAnObjectOnItsWayIsWaitedForAndNotDeletedAgain: a finalizer holds it.
func TestAnObjectOnItsWayIsWaitedForAndNotDeletedAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen, OwnsKube(k.informer, WithDeleter(k)))
		m := w.ownedMap("settings", "home")
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		k.Add(m)
		natstest.Eventually(t, "it is in the cache", func() bool { return k.has("settings") })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the reconciler has cleaned up", func() bool {
			return seen.with("home", OperationDelete) == 1
		})
		natstest.Eventually(t, "the teardown looks again later", func() bool { return c.Stats().Delayed > 0 })
		if noRecord(t, sites, "home")() {
			t.Error("the anchor went before the object")
		}
		k.FakeControllerSource.Delete(m.DeepCopy())
		natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
		if n := len(k.asked()); n != 0 {
			t.Errorf("the deleter was asked %d times for what is on its way", n)
		}
	})
}

func TestTheSweepDeletesKubernetesObjectsWithoutAnOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		k := newCluster(t)
		were(t, w.sites(), "nobody")
		k.Add(w.ownedMap("orphan", "nobody"))
		k.Add(w.mapOf("foreign", "Site", "nobody", "another-installation"))
		// Before the controller runs: the informer may have synced without them, and there is one sweep only.
		natstest.Eventually(t, "both are in the cache", func() bool { return k.has("orphan") && k.has("foreign") })
		var seen calls
		w.runningSites(&seen, OwnsKube(k.informer, WithDeleter(k)))
		natstest.Eventually(t, "the orphan is swept", func() bool { return !k.has("orphan") })
		if !k.has("foreign") {
			t.Error("the other installation's object was swept")
		}
	})
}

// TestControllersShareOneInformerAndItsIndex: they start at the same moment, and each finds what it owns.
func TestControllersShareOneInformerAndItsIndex(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		const controllers = 4
		var seen [controllers]calls
		var all [controllers]*Controller[*site]
		var clients [controllers]*entity.Client[*site]
		var runs [controllers]*running
		for i := range controllers {
			kind := fmt.Sprint("Kind", i)
			clients[i] = w.client(kind, fmt.Sprint("bucket-", i))
			c, err := New(kind, clients[i], seen[i].reconciler(nil), OwnsKube(k.informer, WithDeleter(k)),
				WithResyncInterval(0))
			must(t, err)
			all[i] = c
		}
		for i, c := range all {
			runs[i] = w.run(c)
		}
		for i, c := range all {
			must(t, clients[i].Create(t.Context(), newSite("home", "one")))
			natstest.Eventually(t, "its primary", func() bool { return seen[i].count("home") == 1 })
			m := configMap(fmt.Sprint("of-", i), "one")
			c.SetOwner(m, "home")
			k.Add(m)
			natstest.Eventually(t, "its secondary", func() bool {
				return seen[i].with("home", OperationSecondary) == 1
			})
		}
		// One that stops takes its handler off and nothing else.
		runs[0].halt()
		k.Modify(w.mapOf("of-0", "Kind0", "home", all[0].engine.InstanceID()))
		for i := 1; i < controllers; i++ {
			must(t, clients[i].Delete(t.Context(), "home"))
			natstest.Eventually(t, "its teardown", func() bool { return all[i].Stats().TornDown == 1 })
			if k.has(fmt.Sprint("of-", i)) {
				t.Errorf("the object of %d is left", i)
			}
		}
		if !k.has("of-0") {
			t.Error("the object of the controller that stopped is gone")
		}
		if n := seen[0].count("home"); n != 2 {
			t.Errorf("the controller that stopped was called %d times, want twice: %v", n, seen[0].of("home"))
		}
		// Its informer still runs, and serves a new controller.
		if k.informer.IsStopped() {
			t.Fatal("the controller stopped the user's informer")
		}
		var again calls
		c, err := New("Kind0", clients[0], again.reconciler(nil), OwnsKube(k.informer, WithDeleter(k)),
			WithResyncInterval(0))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "its primary again", func() bool { return again.count("home") >= 1 })
		must(t, clients[0].Delete(t.Context(), "home"))
		natstest.Eventually(t, "its teardown", func() bool { return c.Stats().TornDown == 1 && !k.has("of-0") })
	})
}

// TestStoppedControllerIsNotCalledByTheInformersItUsed looks at the calls of its mappers, NATS and Kubernetes.
func TestStoppedControllerIsNotCalledByTheInformersItUsed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		pages := w.pages()
		var seen calls
		var mapped, others atomic.Int32
		_, _, r := w.runningSites(&seen,
			WatchesKube(k.informer, func(context.Context, metav1.Object) ([]string, error) {
				mapped.Add(1)
				return nil, nil
			}),
			Watches(pages, func(context.Context, *page) ([]string, error) { mapped.Add(1); return nil, nil }))
		other, err := New("other", w.client("Theme", "themes"), noReconciler,
			WatchesKube(k.informer, func(context.Context, metav1.Object) ([]string, error) {
				others.Add(1)
				return nil, nil
			}),
			Watches(pages, func(context.Context, *page) ([]string, error) { others.Add(1); return nil, nil }))
		must(t, err)
		w.run(other)
		k.Add(configMap("a", "one"))
		must(t, pages.Create(t.Context(), named("a")))
		natstest.Eventually(t, "both hear of both", func() bool { return mapped.Load() == 2 && others.Load() == 2 })
		r.halt()
		k.Add(configMap("b", "one"))
		must(t, pages.Create(t.Context(), named("b")))
		natstest.Eventually(t, "the other one goes on", func() bool { return others.Load() == 4 })
		if n := mapped.Load(); n != 2 {
			t.Errorf("the one that stopped was called %d times after that", n-2)
		}
	})
}
