package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
)

// manager names the field manager outside of reconciles, owner the primary.
var manager = kube.WithFieldManager("nagi-test")

func (w *world) mine(name, value string) *corev1.ConfigMap {
	return of(w.configMap(name, value), "home", "here")
}

func (w *world) shows(maps *kube.Handle[*corev1.ConfigMap], name, version string) {
	w.t.Helper()
	natstest.Eventually(w.t, "the cache shows it", func() bool {
		item, ok, err := maps.Informer().GetStore().GetByKey(w.key(name))
		return ok && err == nil && item.(metav1.Object).GetResourceVersion() == version
	})
}

// TestApplyInAReconcileSetsTheOwnerAndTheFieldManager without any options.
func TestApplyInAReconcileSetsTheOwnerAndTheFieldManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		result, err := maps.Apply(ctx, w.configMap("settings", "one"))
		if result != controller.OperationResultCreated {
			t.Errorf("the result is %q, want created", result)
		}
		return err
	}, maps.Owns()))
	m := w.liveMap("settings")
	if kind, key, _ := controller.OwnerOf(m); kind != "Site" || key != "home" ||
		m.Labels[controller.OwnerInstanceLabel] == "" {
		t.Errorf("it is owned by %s %q, labels %v", kind, key, m.Labels)
	}
	if len(m.ManagedFields) != 1 || m.ManagedFields[0].Manager != "sites" ||
		m.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("the managers are %+v, want sites by Apply and nobody else", m.ManagedFields)
	}
}

// TestApplyWritesNothingWhenNothingChanged, even if others' fields change. That holds for the process that applied the
// object, and for one that knows only the cache.
func TestApplyWritesNothingWhenNothingChanged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resource schema.GroupVersionResource
		// asks is how many requests a new process sends, and changed how many after a change of another field: the
		// cache cannot tell all.
		asks, changed int
		apply         func(w *world) func() (controller.OperationResult, error) // a handle of a new process each time
	}{
		"typed": {configMaps, 0, 0, func(w *world) func() (controller.OperationResult, error) {
			maps := w.maps(manager)
			return func() (controller.OperationResult, error) {
				return maps.Apply(t.Context(), w.mine("settings", "one"))
			}
		}},
		"metadata only": {configMaps, 1, 1, func(w *world) func() (controller.OperationResult, error) {
			informer := w.metadataOnly(configMaps, w.namespace)
			maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer, manager)
			must(t, err)
			w.awaitSync(w.start(informer))
			return func() (controller.OperationResult, error) {
				return maps.Apply(t.Context(), w.mine("settings", "one"))
			}
		}},
		"deployment": {
			appsv1.SchemeGroupVersion.WithResource("deployments"), 1, 0,
			func(w *world) func() (controller.OperationResult, error) {
				informer := w.deployments()
				deployments, err := kube.New[*appsv1.Deployment](w.dynamic,
					appsv1.SchemeGroupVersion.WithResource("deployments"), informer, manager)
				must(t, err)
				w.awaitSync(w.start(informer))
				return func() (controller.OperationResult, error) {
					return deployments.Apply(t.Context(), w.deployment("settings"))
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			at := w.dynamic.Resource(test.resource).Namespace(w.namespace)
			apply := test.apply(w)
			result, err := apply()
			if err != nil || result != controller.OperationResultCreated {
				t.Fatalf("first: %q, %v", result, err)
			}
			before, err := at.Get(t.Context(), "settings", metav1.GetOptions{})
			must(t, err)
			same := func(who string, asks int, apply func() (controller.OperationResult, error)) {
				t.Helper()
				writes := w.requests.writes(test.resource.Resource)
				result, err := apply()
				if err != nil || result != controller.OperationResultNone {
					t.Errorf("%s: %q, %v", who, result, err)
				}
				if n := w.requests.writes(test.resource.Resource) - writes; n > asks {
					t.Errorf("%s: %d requests, want at most %d", who, n, asks)
				}
			}
			same("at once", 0, apply)
			other := test.apply(w)
			same("another process", test.asks, other)
			same("another process again", 0, other)
			// Somebody else's field changes; Apply must leave it.
			_, err = at.Patch(t.Context(), "settings", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"somebodys":"label"}}}`), metav1.PatchOptions{FieldManager: "somebody"})
			must(t, err)
			same("after a change of another field", test.changed, apply)
			same("after a change of another field, another process", test.asks, test.apply(w))
			after, err := at.Get(t.Context(), "settings", metav1.GetOptions{})
			must(t, err)
			if after.GetGeneration() != before.GetGeneration() || after.GetLabels()["somebodys"] != "label" {
				t.Errorf("it is %v now, generation %d before", after.Object["metadata"], before.GetGeneration())
			}
		})
	}
}

// deployment returns one with every sort of field: maps, lists by key with defaults in the key, lists of scalars, empty
// structs.
func (w *world) deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	replicas := int32(2)
	return of(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Finalizers: []string{"example.com/a", "example.com/b"}},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{
						{
							Name: "web", Image: "web:1", Args: []string{"--a", "--b"},
							Ports: []corev1.ContainerPort{
								{ContainerPort: 80},
								{ContainerPort: 443, Protocol: corev1.ProtocolTCP, Name: "tls"},
							},
							Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
							Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
								corev1.ResourceCPU:    resource.MustParse("1000m"),
								corev1.ResourceMemory: resource.MustParse("1024Mi"),
							}},
							VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
							ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
								HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)},
							}},
						},
						{Name: "sidecar", Image: "sidecar:1"},
					},
					Volumes: []corev1.Volume{{
						Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
					}},
				},
			},
		},
	}, "home", "here")
}

// TestDriftIsRepaired: the next Apply undoes every change of our fields, also in a process that did not apply them
// itself.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.ConfigMap){
		"changed":     func(m *corev1.ConfigMap) { m.Data["value"] = "somebody's" },
		"removed":     func(m *corev1.ConfigMap) { delete(m.Data, "value") },
		"all removed": func(m *corev1.ConfigMap) { m.Data = nil },
		"hash changed": func(m *corev1.ConfigMap) {
			m.Annotations[kube.AppliedHashAnnotation("nagi-test")] = "x"
		},
		"owner's annotation": func(m *corev1.ConfigMap) { delete(m.Annotations, controller.OwnerKeyAnnotation) },
		"owner's label":      func(m *corev1.ConfigMap) { delete(m.Labels, controller.OwnerKeyLabel) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps := w.maps(manager)
			for _, process := range []*kube.Handle[*corev1.ConfigMap]{maps, w.maps(manager)} {
				_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
				must(t, err)
				before := w.liveMap("settings")
				drifted := w.updateMap("settings", change)
				w.shows(process, "settings", drifted.ResourceVersion)
				result, err := process.Apply(t.Context(), w.mine("settings", "one"))
				if err != nil || result != controller.OperationResultUpdated {
					t.Errorf("the result is %q, %v, want updated", result, err)
				}
				after := w.liveMap("settings")
				if fmt.Sprint(after.Data, after.Labels, after.Annotations) !=
					fmt.Sprint(before.Data, before.Labels, before.Annotations) {
					t.Errorf("it was not repaired: %v, %v, %v", after.Data, after.Labels, after.Annotations)
				}
				w.shows(maps, "settings", after.ResourceVersion)
			}
		})
	}
}

// TestAnObjectThatLostAllTraceOfItsOwnerIsRepaired by the process that applied it, which knows its uid. To another
// process the object is nobody's, because it may be another installation's.
func TestAnObjectThatLostAllTraceOfItsOwnerIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps, other := w.maps(manager), w.maps(manager)
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	stripped := w.updateMap("settings", func(m *corev1.ConfigMap) { m.Labels, m.Annotations = nil, nil })
	w.shows(maps, "settings", stripped.ResourceVersion)
	w.shows(other, "settings", stripped.ResourceVersion)
	var exists *controller.ResourceExistsError
	if _, err := other.Apply(t.Context(), w.mine("settings", "one")); !errors.As(err, &exists) {
		t.Errorf("another process: %v, want a ResourceExistsError", err)
	}
	_, err = maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	if _, key, _ := controller.OwnerOf(w.liveMap("settings")); key != "home" {
		t.Errorf("its owner is %q", key)
	}
}

// TestAForcedTakeOverByAnotherApplyIsDrift: only the set of our fields shows it, not their values.
func TestAForcedTakeOverByAnotherApplyIsDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	force := true
	_, err = w.clientset.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "settings", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"value":"two"}}`),
		metav1.PatchOptions{FieldManager: "somebody", Force: &force})
	must(t, err)
	w.shows(maps, "settings", w.liveMap("settings").ResourceVersion)
	_, err = maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	if m := w.liveMap("settings"); m.Data["value"] != "one" {
		t.Errorf("the value is %q", m.Data["value"])
	}
}

// TestOtherValuesOfOurOwnFieldManagerAreDrift, though the set of fields that it manages stays the same.
func TestOtherValuesOfOurOwnFieldManagerAreDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps, other := w.maps(manager), w.maps(manager)
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	w.shows(other, "settings", w.liveMap("settings").ResourceVersion)
	_, err = other.Apply(t.Context(), w.mine("settings", "two"))
	must(t, err)
	w.shows(maps, "settings", w.liveMap("settings").ResourceVersion)
	result, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	if err != nil || result != controller.OperationResultUpdated {
		t.Errorf("the result is %q, %v, want updated", result, err)
	}
	if m := w.liveMap("settings"); m.Data["value"] != "one" {
		t.Errorf("the value is %q", m.Data["value"])
	}
	writes := w.requests.writes("configmaps")
	if _, err := maps.Apply(t.Context(), w.mine("settings", "one")); err != nil ||
		w.requests.writes("configmaps") != writes {
		t.Errorf("once it is repaired: %v, %d writes, want none", err, w.requests.writes("configmaps")-writes)
	}
}

// TestFieldsThatAreNotAppliedAnyMoreAreRemoved, and others' fields stay.
func TestFieldsThatAreNotAppliedAnyMoreAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	m := w.mine("settings", "one")
	m.Data["extra"] = "one"
	_, err := maps.Apply(t.Context(), m)
	must(t, err)
	w.updateMap("settings", func(m *corev1.ConfigMap) { m.Data["others"] = "one" })
	result, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	if got := w.liveMap("settings").Data; result != controller.OperationResultUpdated ||
		got["extra"] != "" || got["others"] != "one" || got["value"] != "one" {
		t.Errorf("%q: the data are %v", result, got)
	}
}

// TestWithoutForceAConflictNamesFieldsAndManagers, and writes nothing.
func TestWithoutForceAConflictNamesFieldsAndManagers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	w.updateMap("settings", func(m *corev1.ConfigMap) { m.Data["value"] = "two" })
	w.shows(maps, "settings", w.liveMap("settings").ResourceVersion)
	_, err = maps.Apply(t.Context(), w.mine("settings", "one"), kube.WithoutForce())
	var conflict *kube.ApplyConflictError
	if !errors.As(err, &conflict) || !isConflict(err) {
		t.Fatalf("the error is %v, want an ApplyConflictError that is a conflict", err)
	}
	says(t, err, "configmaps/v1", w.key("settings"), ".data.value", "somebody")
	if len(conflict.Conflicts) != 1 || conflict.Conflicts[0].Field != ".data.value" {
		t.Errorf("the conflicts are %+v", conflict.Conflicts)
	}
	if m := w.liveMap("settings"); m.Data["value"] != "two" {
		t.Errorf("it was written all the same: %v", m.Data)
	}
}

// TestOfManyWhoApplyTheSameNameOneGetsIt: each applies for another owner, at the same moment, with an empty cache.
func TestOfManyWhoApplyTheSameNameOneGetsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for round := range 10 {
		const racers = 8
		name := fmt.Sprint("settings-", round)
		var handles [racers]*kube.Handle[*corev1.ConfigMap]
		for i := range racers {
			handles[i] = w.deaf()
		}
		var wins, refusals int
		var mu sync.Mutex
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, maps := range handles {
			wg.Go(func() {
				m := of(w.configMap(name, fmt.Sprint(i)), fmt.Sprint("site-", i), "here")
				<-start
				_, err := maps.Apply(t.Context(), m)
				var exists *controller.ResourceExistsError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					wins++
				case errors.As(err, &exists):
					refusals++
				default:
					t.Errorf("site-%d: %v", i, err)
				}
			})
		}
		close(start)
		wg.Wait()
		m := w.liveMap(name)
		if wins != 1 || refusals != racers-1 ||
			m.Annotations[controller.OwnerKeyAnnotation] != "site-"+m.Data["value"] {
			t.Fatalf("%d won, %d were refused: %v %v", wins, refusals, m.Annotations, m.Data)
		}
	}
}

// TestSomebodysObjectIsRefusedWithoutForceToo: the error is the same if the cache does not show the object.
func TestSomebodysObjectIsRefusedWithoutForceToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createMap(w.configMap("settings", "somebody's"))
	_, err := w.deaf().Apply(t.Context(), w.mine("settings", "one"), kube.WithoutForce())
	var exists *controller.ResourceExistsError
	if !errors.As(err, &exists) || w.liveMap("settings").Data["value"] != "somebody's" {
		t.Errorf("%v, want a ResourceExistsError", err)
	}
}

// deaf returns a handle whose cache shows nothing.
func (w *world) deaf() *kube.Handle[*corev1.ConfigMap] {
	w.t.Helper()
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps,
		cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, cache.Indexers{}),
		manager)
	must(w.t, err)
	return maps
}

// TestApplyMakesAgainWhatWasReplacedBehindTheCache: the object was deleted and another one has its name, and the cache
// does not show it yet.
func TestApplyMakesAgainWhatWasReplacedBehindTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.deaf()
	at := w.clientset.CoreV1().ConfigMaps(w.namespace)
	_, err := maps.Apply(t.Context(), w.mine("settings", "one")) // from now on the handle shows its own write
	must(t, err)

	must(t, at.Delete(t.Context(), "settings", metav1.DeleteOptions{}))
	result, err := maps.Apply(t.Context(), w.mine("settings", "two"))
	if err != nil || w.liveMap("settings").Data["value"] != "two" {
		t.Errorf("deleted behind its back: %q, %v", result, err)
	}

	must(t, at.Delete(t.Context(), "settings", metav1.DeleteOptions{}))
	w.createMap(w.configMap("settings", "somebody's"))
	_, err = maps.Apply(t.Context(), w.mine("settings", "three"))
	var exists *controller.ResourceExistsError
	if !errors.As(err, &exists) || w.liveMap("settings").Data["value"] != "somebody's" {
		t.Errorf("replaced by somebody: %v, %v", err, w.liveMap("settings").Data)
	}
}

// TestWhatAdmissionMakesOfAnApplyIsNoDrift: a policy changes an applied object, as a mutating webhook would. Apply does
// not write against it for ever, in this process or another.
func TestWhatAdmissionMakesOfAnApplyIsNoDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy("mutatingadmissionpolicies", map[string]any{
		"reinvocationPolicy": "Never",
		"mutations": []any{map[string]any{
			"patchType": "JSONPatch",
			"jsonPatch": map[string]any{
				"expression": `[JSONPatch{op: "replace", path: "/data/value", value: "mutated"}]`,
			},
		}},
	}, func() bool {
		m, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Create(t.Context(),
			w.configMap("probe", "one"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && m.Data["value"] == "mutated"
	})
	first := w.maps(manager)
	_, err := first.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	if m := w.liveMap("settings"); m.Data["value"] != "mutated" {
		t.Fatalf("the policy did not change it: %v", m.Data)
	}
	for asks, process := range []*kube.Handle[*corev1.ConfigMap]{first, w.maps(manager)} {
		before := w.requests.writes("configmaps")
		for range 3 {
			result, err := process.Apply(t.Context(), w.mine("settings", "one"))
			if err != nil || result != controller.OperationResultNone {
				t.Errorf("%q, %v", result, err)
			}
		}
		if n := w.requests.writes("configmaps") - before; n != asks {
			t.Errorf("%d requests, want %d: a new process has to ask once", n, asks)
		}
	}
}

// TestStrippedManagedFieldsCostARequestAndNoWrite: a transform may drop them from the cache.
func TestStrippedManagedFieldsCostARequestAndNoWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stripped := func() *kube.Handle[*corev1.ConfigMap] {
		informer := w.typed()
		must(t, informer.SetTransform(func(obj any) (any, error) {
			if m, ok := obj.(*corev1.ConfigMap); ok {
				m.ManagedFields = nil
			}
			return obj, nil
		}))
		maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer, manager)
		must(t, err)
		w.awaitSync(w.start(informer))
		return maps
	}
	maps := stripped()
	_, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	before := w.requests.writes("configmaps")
	_, err = maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	if n := w.requests.writes("configmaps") - before; n != 0 {
		t.Errorf("%d requests though nobody touched it", n)
	}
	drifted := w.updateMap("settings", func(m *corev1.ConfigMap) { m.Data["value"] = "two" })
	w.shows(maps, "settings", drifted.ResourceVersion)
	result, err := maps.Apply(t.Context(), w.mine("settings", "one"))
	if err != nil || result != controller.OperationResultUpdated || w.liveMap("settings").Data["value"] != "one" {
		t.Errorf("%q, %v: drift is not repaired", result, err)
	}
	version := w.liveMap("settings").ResourceVersion
	restarted := stripped() // it remembers nothing, so it has to ask
	before = w.requests.writes("configmaps")
	result, err = restarted.Apply(t.Context(), w.mine("settings", "one"))
	if err != nil || result != controller.OperationResultNone || w.liveMap("settings").ResourceVersion != version {
		t.Errorf("%q, %v: written though nothing changed", result, err)
	}
	if n := w.requests.writes("configmaps") - before; n != 1 {
		t.Errorf("%d requests of one that remembers nothing, want 1", n)
	}
}

// TestAConvergedSystemIsCalm: a controller writes each site's objects once, and a controller that starts anew writes
// nothing.
func TestAConvergedSystemIsCalm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 30
	for i := range count {
		must(t, w.sites.Create(t.Context(), newSite(fmt.Sprint("site-", i))))
	}
	versions := map[string]string{}
	for run := range 2 {
		informer := w.deployments()
		deployments, err := kube.New[*appsv1.Deployment](w.dynamic,
			appsv1.SchemeGroupVersion.WithResource("deployments"), informer)
		must(t, err)
		var seen calls
		c := w.applied(func(ctx context.Context, key string) error {
			_, err := deployments.Apply(ctx, w.deployment(key))
			return err
		}, &seen, deployments.Owns())
		w.start(informer)
		r := w.run(c)
		natstest.Eventually(t, "all sites are reconciled, and then nothing is to be done", func() bool {
			for i := range count {
				if seen.count(fmt.Sprint("site-", i)) == 0 {
					return false
				}
			}
			s := c.Stats() // after the count: before it, the last site may be neither ready nor running yet
			return s.Running == 0 && s.Ready == [3]int{} && s.Delayed == 0
		})
		// An event of the last write may be on its way: one more round of each, with a cache that has all.
		owned, err := deployments.List(nil)
		if err != nil || len(owned) != count {
			t.Fatalf("run %d: %d deployments, %v", run, len(owned), err)
		}
		for i := range count {
			c.Enqueue(fmt.Sprint("site-", i), controller.OperationManual)
		}
		natstest.Eventually(t, "all again", func() bool {
			for i := range count {
				if seen.with(fmt.Sprint("site-", i), controller.OperationManual) == 0 {
					return false
				}
			}
			return c.Stats().Running == 0
		})
		r.halt()
		// A new process asks nothing: no struct is applied that is empty here and has defaults there.
		if n := w.requests.writes("deployments"); n != count {
			t.Errorf("run %d: %d writes were sent so far, want %d", run, n, count)
		}
		for _, d := range owned {
			if v := versions[d.Name]; v != "" && v != d.ResourceVersion {
				t.Errorf("run %d: %s was written: version %s, then %s", run, d.Name, v, d.ResourceVersion)
			}
			versions[d.Name] = d.ResourceVersion
		}
	}
}
