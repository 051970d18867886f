package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// finalizer is removed by the tests, as the garbage collector would do, which does not run here.
func (w *world) finalized(name string) {
	w.t.Helper()
	w.updateMap(name, func(m *corev1.ConfigMap) { m.Finalizers = nil })
}

// tearingDown starts a controller whose site "home" owns the ConfigMap "settings", and deletes the site.
func (w *world) tearingDown(opts ...kube.DeleteOption) (*controller.Controller[*site], *calls) {
	w.t.Helper()
	maps := w.maps(kube.WithDeletes(opts...))
	seen := &calls{}
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		return err
	}, seen, maps.Owns())
	w.run(c)
	must(w.t, w.sites.Create(w.t.Context(), newSite("home")))
	natstest.Eventually(w.t, "it is there, and its event is reconciled", func() bool { // else that event may tear down too
		_, err := maps.Get(w.key("settings"))
		return err == nil && seen.with("home", controller.OperationSecondary) > 0
	})
	must(w.t, w.sites.Delete(w.t.Context(), "home"))
	return c, seen
}

func (w *world) hasRecord(key string) bool {
	w.t.Helper()
	_, err := w.sites.Record(w.t.Context(), key)
	if err != nil && !isNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// TestForegroundKeepsTheAnchorUntilTheObjectIsGone: the object's own dependents in Kubernetes go first.
func TestForegroundKeepsTheAnchorUntilTheObjectIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, seen := w.tearingDown(kube.WithPropagation(metav1.DeletePropagationForeground))
	natstest.Eventually(t, "it is being deleted", func() bool { return w.liveMap("settings").DeletionTimestamp != nil })
	if m := w.liveMap("settings"); !slices.Equal(m.Finalizers, []string{metav1.FinalizerDeleteDependents}) {
		t.Errorf("the finalizers are %v", m.Finalizers)
	}
	natstest.Eventually(t, "the teardown waits", func() bool { return c.Stats().Delayed > 0 })
	if !w.hasRecord("home") || c.Stats().TornDown != 0 {
		t.Error("the anchor went before the object")
	}
	deletes := w.requests.of("DELETE configmaps")
	w.finalized("settings")
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	if w.hasRecord("home") || w.liveMap("settings") != nil {
		t.Error("the record or the object is left")
	}
	if n := w.requests.of("DELETE configmaps"); n != deletes || n > 2 {
		t.Errorf("%d deletes were sent", n)
	}
	if n := seen.with("home", controller.OperationDelete); n != 1 {
		t.Errorf("the reconciler was called %d times with Delete, want once", n)
	}
}

func TestOrphanLeavesWhatTheObjectOwns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.tearingDown(kube.WithPropagation(metav1.DeletePropagationOrphan))
	natstest.Eventually(t, "it is being deleted", func() bool { return w.liveMap("settings").DeletionTimestamp != nil })
	if m := w.liveMap("settings"); !slices.Equal(m.Finalizers, []string{metav1.FinalizerOrphanDependents}) {
		t.Errorf("the finalizers are %v", m.Finalizers)
	}
	w.finalized("settings")
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
}

// TestAPrimaryThatOrphansLeavesItsKubernetesObjects, and the sweep does not take them later.
func TestAPrimaryThatOrphansLeavesItsKubernetesObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		return err
	}, &seen, maps.Owns(), controller.WithResyncInterval(50_000_000))
	w.run(c)
	s := newSite("home")
	s.Annotations = map[string]string{controller.DeletionPolicyAnnotation: controller.DeletionPolicyOrphan}
	must(t, w.sites.Create(t.Context(), s))
	natstest.Eventually(t, "it is there", func() bool { _, err := maps.Get(w.key("settings")); return err == nil })
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	sweeps := c.Stats().Sweeps
	natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
	if w.liveMap("settings") == nil || w.requests.of("DELETE configmaps") != 0 {
		t.Error("it was deleted")
	}
}

// TestTheDeleterDeletesWhatWasSeenAndNothingElse: not an object that has changed or been replaced since.
func TestTheDeleterDeletesWhatWasSeenAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	deleter := kube.Deleter(w.dynamic, configMaps)
	seen := w.createMap(w.configMap("changed", "one"))
	w.updateMap("changed", func(m *corev1.ConfigMap) { m.Data["value"] = "two" })
	err := deleter.Delete(ctx, seen)
	says(t, err, "delete configmaps/v1", w.key("changed"))
	if !isConflict(err) || w.liveMap("changed") == nil {
		t.Errorf("changed since: %v", err)
	}
	must(t, deleter.Delete(ctx, w.liveMap("changed")))
	if w.liveMap("changed") != nil {
		t.Error("it is left")
	}
	must(t, deleter.Delete(ctx, seen)) // absent is success

	old := w.createMap(w.configMap("replaced", "one"))
	must(t, deleter.Delete(ctx, old))
	w.createMap(w.configMap("replaced", "two"))
	must(t, deleter.Delete(ctx, old))
	if w.liveMap("replaced") == nil {
		t.Error("the new object was deleted for the old one")
	}

	held := w.configMap("held", "one")
	held.Finalizers = []string{"example.com/held"}
	held = w.createMap(held)
	must(t, deleter.Delete(ctx, held))
	must(t, deleter.Delete(ctx, held)) // its delete is under way already
	w.finalized("held")

	if err := deleter.Delete(ctx, w.configMap("unread", "one")); err == nil {
		t.Error("an object without a uid was deleted")
	}
	missing, _ := w.widgets("Namespaced")
	err = kube.Deleter(w.dynamic, missing).Delete(ctx, old)
	says(t, err, "delete widgets", "install its CustomResourceDefinition")
}

// TestWrongDeleterOptionsFailNew.
func TestWrongDeleterOptionsFailNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	none := func(context.Context, controller.Request) (controller.Result, error) {
		return controller.Result{}, nil
	}
	_, err := controller.New("sites", w.sites, controller.ReconcilerFunc(none), controller.OwnsKube(w.typed(),
		controller.WithDeleter(kube.Deleter(w.dynamic, configMaps, kube.WithPropagation("sideways")))))
	says(t, err, "sideways", "Background, Foreground or Orphan")
}

// TestAnObjectThatChangesAllTheTimeIsDeletedInTheEnd: after a failed precondition the delete is tried again with the
// object's new version.
func TestAnObjectThatChangesAllTheTimeIsDeletedInTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			_, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "settings", types.MergePatchType,
				fmt.Appendf(nil, `{"data":{"changes":"%d"}}`, n), metav1.PatchOptions{})
			if err != nil && !isNotFound(err) {
				t.Error(err)
				return
			}
		}
	}()
	c, _ := w.tearingDown()
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	close(stop)
	<-done
}

// TestAReconcileDeletesOnlyWhatIsItsPrimarys.
func TestAReconcileDeletesOnlyWhatIsItsPrimarys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	foreign := w.createMap(of(w.configMap("foreign", "one"), "home", "another-installation"))
	nobodys := w.createMap(w.configMap("nobodys", "one"))
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		for _, m := range []*corev1.ConfigMap{foreign, nobodys} {
			var exists *controller.ResourceExistsError
			if err := maps.Delete(ctx, m); !errors.As(err, &exists) {
				t.Errorf("%s: %v, want a ResourceExistsError", m.Name, err)
			}
		}
		if _, err := maps.Apply(ctx, w.configMap("mine", "one")); err != nil {
			return err
		}
		mine, err := maps.Get(w.key("mine"))
		if err != nil {
			return err
		}
		return maps.Delete(ctx, mine)
	}, maps.Owns()))
	if w.liveMap("mine") != nil || w.liveMap("foreign") == nil || w.liveMap("nobodys") == nil {
		t.Error("what is left is not what was not its own")
	}
}

// held is a watch whose events wait until the gate opens.
type held struct {
	watch.Interface
	results chan watch.Event
}

func (h held) ResultChan() <-chan watch.Event { return h.results }

// lagging returns an informer that shows no change until the gate opens.
func (w *world) lagging(gate <-chan struct{}) cache.SharedIndexInformer {
	at := w.clientset.CoreV1().ConfigMaps(w.namespace)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return at.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			inner, err := at.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			h := held{inner, make(chan watch.Event)}
			go func() {
				defer close(h.results)
				defer inner.Stop()
				select {
				case <-gate:
				case <-ctx.Done():
					return
				}
				for event := range inner.ResultChan() {
					select {
					case h.results <- event:
					case <-ctx.Done():
						return
					}
				}
			}()
			return h, nil
		},
	}, unwatchable{}), &corev1.ConfigMap{}, 0, cache.Indexers{})
}

// unwatchable makes the informer list first.
type unwatchable struct{}

func (unwatchable) IsWatchListSemanticsUnSupported() bool { return true }

// TestATeardownDeletesWhatTheCacheDoesNotShowYet: it was written a moment ago, and the cache is far behind.
func TestATeardownDeletesWhatTheCacheDoesNotShowYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := make(chan struct{})
	informer := w.lagging(gate)
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer)
	must(t, err)
	w.start(informer)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		return err
	}, &seen, maps.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it is there", func() bool { return w.liveMap("settings") != nil })
	if _, exists, _ := informer.GetStore().GetByKey(w.key("settings")); exists {
		t.Fatal("the cache shows it")
	}
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	if w.liveMap("settings") != nil {
		t.Error("it was left behind")
	}
	close(gate)
}
