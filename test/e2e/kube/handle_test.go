package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// TestReadsShowWhatWasWritten at once, and never anything older. Many writers each write their own object by Apply,
// CreateOrUpdate and Delete, with reads of every kind in between.
func TestReadsShowWhatWasWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	const writers, rounds = 8, 40
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			name := fmt.Sprint("settings-", writer)
			want := func(round int, what string) {
				m, err := maps.Get(w.key(name))
				if err != nil || m.Data["value"] != strconv.Itoa(round) {
					t.Errorf("%s, round %d: Get after %s: %v, %v", name, round, what, m.Data, err)
				}
				owned, err := maps.OwnedBy("Site", name)
				if err != nil || len(owned) != 1 || owned[0].Data["value"] != strconv.Itoa(round) {
					t.Errorf("%s, round %d: OwnedBy after %s: %d, %v", name, round, what, len(owned), err)
				}
				listed, err := maps.List(labels.SelectorFromSet(labels.Set{"writer": name}))
				if err != nil || len(listed) != 1 || listed[0].Data["value"] != strconv.Itoa(round) {
					t.Errorf("%s, round %d: List after %s: %d, %v", name, round, what, len(listed), err)
				}
			}
			desired := func(round int) *corev1.ConfigMap {
				m := of(w.configMap(name, strconv.Itoa(round)), name, "here")
				m.Labels["writer"] = name
				return m
			}
			for round := range rounds {
				var err error
				what := "Apply"
				if round%4 == 3 {
					what = "CreateOrUpdate"
					_, err = maps.CreateOrUpdate(t.Context(), desired(round), func(m *corev1.ConfigMap) error {
						m.Data["value"] = strconv.Itoa(round)
						return nil
					})
				} else {
					_, err = maps.Apply(t.Context(), desired(round))
				}
				if err != nil {
					t.Errorf("%s, round %d: %s: %v", name, round, what, err)
					return
				}
				want(round, what)
				if round%10 != 9 {
					continue
				}
				m, err := maps.Get(w.key(name))
				if err == nil {
					err = maps.Delete(t.Context(), m)
				}
				if err != nil {
					t.Errorf("%s, round %d: Delete: %v", name, round, err)
					return
				}
				if m, err := maps.Get(w.key(name)); !isNotFound(err) {
					t.Errorf("%s, round %d: Get after Delete: %v, %v", name, round, m, err)
				}
				if owned, err := maps.OwnedBy("Site", name); err != nil || len(owned) != 0 {
					t.Errorf("%s, round %d: OwnedBy after Delete: %d, %v", name, round, len(owned), err)
				}
			}
		})
	}
	wg.Wait()
}

// TestReadsNeverGoBack: the versions of an object that readers see only grow, while its writer and somebody else write.
func TestReadsNeverGoBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	_, err := maps.Apply(t.Context(), w.mine("settings", "0"))
	must(t, err)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := 0
			for {
				select {
				case <-stop:
					return
				default:
				}
				m, err := maps.Get(w.key("settings"))
				if err != nil {
					t.Error(err)
					return
				}
				now, _ := strconv.Atoi(m.ResourceVersion)
				if now < last {
					t.Errorf("version %d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	for round := range 100 {
		if round%3 == 0 {
			w.updateMap("settings", func(m *corev1.ConfigMap) { m.Data["others"] = strconv.Itoa(round) })
			continue
		}
		_, err := maps.Apply(t.Context(), w.mine("settings", strconv.Itoa(round)))
		must(t, err)
	}
	close(stop)
	readers.Wait()
}

// TestADeletedObjectThatAFinalizerHoldsIsShownAsSuch: not as gone, and not as unchanged.
func TestADeletedObjectThatAFinalizerHoldsIsShownAsSuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		for range 20 {
			m := w.configMap("held", "one")
			m.Finalizers = []string{"example.com/held"}
			if _, err := maps.Apply(ctx, m); err != nil {
				return err
			}
			m, err := maps.Get(w.key("held"))
			if err == nil {
				err = maps.Delete(ctx, m)
			}
			if err != nil {
				return err
			}
			m, err = maps.Get(w.key("held"))
			if err != nil || m.DeletionTimestamp == nil {
				t.Errorf("it is shown as %v, %v", m, err)
			}
			w.finalized("held")
			natstest.Eventually(t, "it is gone", func() bool { _, err := maps.Get(w.key("held")); return isNotFound(err) })
		}
		return nil
	}, maps.Owns()))
}

// TestTheNextReconcileSeesWhatTheLastOneWrote in the informer's own store too, which shows own writes only when the
// watch brings them.
func TestTheNextReconcileSeesWhatTheLastOneWrote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	const rounds = 100
	late, round := 0, 0
	done := make(chan struct{})
	var c *controller.Controller[*site]
	c = w.controller(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if round > 0 {
			item, ok, err := maps.Informer().GetStore().GetByKey(w.key("settings"))
			if err != nil || !ok || item.(*corev1.ConfigMap).Data["value"] != strconv.Itoa(round) {
				late++
			}
		}
		if round == rounds {
			close(done)
			return controller.Result{}, controller.TerminalError(errors.New("done"))
		}
		round++
		_, err := maps.Apply(ctx, w.configMap("settings", strconv.Itoa(round)))
		c.Enqueue(req.Key, controller.OperationManual) // at once: a RequeueAfter would be taken for a loop, and delayed
		return controller.Result{}, err
	})
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	<-done
	if late > 0 {
		t.Errorf("%d of %d reconciles began before the cache showed the last one's write", late, rounds)
	}
}

// TestReadsAreCopies: no other reader sees changes of them.
func TestReadsAreCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	for _, when := range []string{"own write", "cached"} {
		for range 2 {
			m, err := maps.Get(w.key("settings"))
			must(t, err)
			if m.Data["value"] != "one" || m.Kind != "ConfigMap" || m.APIVersion != "v1" {
				t.Errorf("%s: %v", when, m)
			}
			m.Data["value"] = "modified"
		}
		w.shows(maps, "settings", w.liveMap("settings").ResourceVersion)
	}
}

// TestAHandleReadsAnyInformersObjectsAsItsType: typed, unstructured or metadata-only.
func TestAHandleReadsAnyInformersObjectsAsItsType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createMap(w.mine("settings", "one"))
	unstructuredMaps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps,
		w.start(w.unstructured(configMaps, w.namespace)))
	must(t, err)
	typedAsUnstructured, err := kube.New[*unstructured.Unstructured](w.dynamic, configMaps,
		w.start(w.typed()), kube.WithKind("ConfigMap"))
	must(t, err)
	metadataOnly, err := kube.New[*metav1.PartialObjectMetadata](w.dynamic, configMaps,
		w.start(w.metadataOnly(configMaps, w.namespace)))
	must(t, err)
	for _, informer := range []cache.SharedIndexInformer{
		unstructuredMaps.Informer(), typedAsUnstructured.Informer(), metadataOnly.Informer(),
	} {
		w.awaitSync(informer)
	}
	if m, err := unstructuredMaps.Get(w.key("settings")); err != nil ||
		m.Data["value"] != "one" || m.Kind != "ConfigMap" {
		t.Errorf("unstructured as typed: %v, %v", m, err)
	}
	if u, err := typedAsUnstructured.Get(w.key("settings")); err != nil || u.GetKind() != "ConfigMap" {
		t.Errorf("typed as unstructured: %v, %v", u, err)
	} else if value, _, _ := unstructured.NestedString(u.Object, "data", "value"); value != "one" {
		t.Errorf("typed as unstructured: %v", u.Object)
	}
	if owned, err := metadataOnly.OwnedBy("Site", "home"); err != nil ||
		len(owned) != 1 || owned[0].Name != "settings" {
		t.Errorf("metadata only: %v, %v", owned, err)
	}
}

// TestCreateOrUpdateWritesOnlyWhatChanged, and keeps fields that the Go type does not know and fields that others
// wrote.
func TestCreateOrUpdateWritesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	for name, informer := range map[string]func(*world) cache.SharedIndexInformer{
		"typed":         (*world).typed,
		"metadata only": func(w *world) cache.SharedIndexInformer { return w.metadataOnly(configMaps, w.namespace) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			informer := informer(w)
			maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer, manager)
			must(t, err)
			w.awaitSync(w.start(informer))
			write := func(value string, want controller.OperationResult, requests int) {
				t.Helper()
				before := w.requests.writes("configmaps")
				m := of(w.configMap("settings", "as it came"), "home", "here")
				result, err := maps.CreateOrUpdate(t.Context(), m, func(m *corev1.ConfigMap) error {
					m.Data["value"] = value
					return nil
				})
				if err != nil || result != want {
					t.Errorf("%q: %q, %v, want %q", value, result, err, want)
				}
				if n := w.requests.writes("configmaps") - before; n != requests {
					t.Errorf("%q: %d writes were sent, want %d", value, n, requests)
				}
				if m.Data["value"] != value || m.ResourceVersion != w.liveMap("settings").ResourceVersion {
					t.Errorf("%q: obj is %v at %s", value, m.Data, m.ResourceVersion)
				}
			}
			write("one", controller.OperationResultCreated, 1)
			write("one", controller.OperationResultNone, 0)
			drifted := w.updateMap("settings", func(m *corev1.ConfigMap) { m.Data["others"] = "one" })
			natstest.Eventually(t, "the cache shows it", func() bool {
				item, ok, _ := informer.GetStore().GetByKey(w.key("settings"))
				return ok && item.(metav1.Object).GetResourceVersion() == drifted.ResourceVersion
			})
			write("two", controller.OperationResultUpdated, 1)
			if m := w.liveMap("settings"); m.Data["others"] != "one" || m.Data["value"] != "two" {
				t.Errorf("the data are %v", m.Data)
			}
		})
	}
}

// TestCreateOrUpdateTriesAgainWhenSomebodyWasFaster.
func TestCreateOrUpdateTriesAgainWhenSomebodyWasFaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	const writers, each = 5, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				for {
					_, err := maps.CreateOrUpdate(t.Context(), w.mine("counter", "0"), func(m *corev1.ConfigMap) error {
						n, err := strconv.Atoi(m.Data["value"])
						m.Data["value"] = strconv.Itoa(n + 1)
						return err
					})
					if isConflict(err) {
						continue // it gave up after some tries
					}
					if err != nil {
						t.Error(err)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	if got := w.liveMap("counter").Data["value"]; got != strconv.Itoa(writers*each) {
		t.Errorf("%s increments, want %d: a write was lost or made twice", got, writers*each)
	}
}

// TestAHandleOfAClusterScopedResource reads, writes and deletes by name alone.
func TestAHandleOfAClusterScopedResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Cluster")
	w.install(resource, crd)
	informer := w.unstructured(resource, "")
	widgets, err := kube.New[*unstructured.Unstructured](w.dynamic, resource, informer, manager)
	must(t, err)
	w.awaitSync(w.start(informer))
	result, err := widgets.Apply(t.Context(), of(w.widget(resource, "", "a", "one"), "home", "here"))
	if err != nil || result != controller.OperationResultCreated {
		t.Fatalf("%q, %v", result, err)
	}
	result, err = widgets.CreateOrUpdate(t.Context(),
		of(w.widget(resource, "", "a", ""), "home", "here"),
		func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, "two", "spec", "value")
		})
	if err != nil || result != controller.OperationResultUpdated {
		t.Fatalf("%q, %v", result, err)
	}
	u, err := widgets.Get("a")
	must(t, err)
	if value, _, _ := unstructured.NestedString(u.Object, "spec", "value"); value != "two" {
		t.Errorf("it is %v", u.Object)
	}
	must(t, widgets.Delete(t.Context(), u))
	if _, err := widgets.Get("a"); !isNotFound(err) {
		t.Errorf("after Delete: %v", err)
	}
}
