package kube

import (
	"encoding/json"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDriftInListsIsRepaired: in lists by key, lists that are one value, sets, and the fields of their items, also in a
// process that did not apply them itself.
func TestDriftInListsIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handle := func() *kube.Handle[*appsv1.Deployment] {
		informer := w.deployments()
		k, err := kube.New[*appsv1.Deployment](w.dynamic,
			appsv1.SchemeGroupVersion.WithResource("deployments"), informer, manager)
		must(t, err)
		w.awaitSync(w.start(informer))
		return k
	}
	at := w.clientset.AppsV1().Deployments(w.namespace)
	spec := func() string {
		d, err := at.Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		text, err := json.Marshal(d.Spec)
		must(t, err)
		return string(text)
	}
	first := handle()
	_, err := first.Apply(t.Context(), w.deployment("web"))
	must(t, err)
	want := spec()
	web := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	for name, change := range map[string]func(*appsv1.Deployment){
		"a field of an item":                     func(d *appsv1.Deployment) { web(d).Image = "evil:1" },
		"an item of an item gone":                func(d *appsv1.Deployment) { web(d).Env = web(d).Env[:1] },
		"an item of an item changed":             func(d *appsv1.Deployment) { web(d).Env[1].Value = "x" },
		"an item with a default in its key gone": func(d *appsv1.Deployment) { web(d).Ports = web(d).Ports[1:] },
		"a list that is one value":               func(d *appsv1.Deployment) { web(d).Args = []string{"--b", "--a"} },
		"an item gone": func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[:1]
		},
		"a value of a set gone": func(d *appsv1.Deployment) {
			d.Spec.Template.Finalizers = d.Spec.Template.Finalizers[:1]
		},
		"a struct gone": func(d *appsv1.Deployment) { web(d).ReadinessProbe = nil },
		"a quantity gone": func(d *appsv1.Deployment) {
			delete(web(d).Resources.Requests, corev1.ResourceCPU)
		},
	} {
		for who, k := range map[string]*kube.Handle[*appsv1.Deployment]{
			"who applied it": first, "a new process": handle(),
		} {
			d, err := at.Get(t.Context(), "web", metav1.GetOptions{})
			must(t, err)
			change(d)
			d, err = at.Update(t.Context(), d, metav1.UpdateOptions{FieldManager: "somebody"})
			must(t, err)
			if spec() == want {
				t.Errorf("%s: no change at all", name)
			}
			natstest.Eventually(t, "the cache shows it", func() bool {
				cached, err := k.Get(w.key("web"))
				return err == nil && cached.ResourceVersion == d.ResourceVersion
			})
			_, err = k.Apply(t.Context(), w.deployment("web"))
			must(t, err)
			if got := spec(); got != want {
				t.Errorf("%s, by %s:\n%s, want\n%s", name, who, got, want)
			}
		}
	}
}

// TestDriftOfACustomResourceIsRepaired, although the API server knows no keys of its lists; without drift nothing is
// written.
func TestDriftOfACustomResourceIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Namespaced")
	w.install(resource, crd)
	handle := func() *kube.Handle[*unstructured.Unstructured] {
		informer := w.unstructured(resource, w.namespace)
		k, err := kube.New[*unstructured.Unstructured](w.dynamic, resource, informer, manager)
		must(t, err)
		w.awaitSync(w.start(informer))
		return k
	}
	at := w.dynamic.Resource(resource).Namespace(w.namespace)
	desired := func() *unstructured.Unstructured {
		u := of(w.widget(resource, w.namespace, "web", "one"), "home", "here")
		u.Object["spec"] = map[string]any{
			"value": "one", "size": int64(3), "nested": map[string]any{"a": "b"},
			"list": []any{
				map[string]any{"name": "a", "value": "1"}, map[string]any{"name": "b", "value": "2"},
			},
		}
		return u
	}
	spec := func() string {
		u, err := at.Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		text, err := json.Marshal(u.Object["spec"])
		must(t, err)
		return string(text)
	}
	first := handle()
	_, err := first.Apply(t.Context(), desired())
	must(t, err)
	want := spec()
	for name, change := range map[string]func(map[string]any){
		"changed":         func(spec map[string]any) { spec["value"] = "two" },
		"another type":    func(spec map[string]any) { spec["size"] = "three" },
		"gone":            func(spec map[string]any) { delete(spec, "nested") },
		"an item changed": func(spec map[string]any) { spec["list"].([]any)[1].(map[string]any)["value"] = "x" },
		"an item gone":    func(spec map[string]any) { spec["list"] = spec["list"].([]any)[:1] },
		"items in another order": func(spec map[string]any) {
			list := spec["list"].([]any)
			list[0], list[1] = list[1], list[0]
		},
	} {
		for who, k := range map[string]*kube.Handle[*unstructured.Unstructured]{
			"who applied it": first, "a new process": handle(),
		} {
			u, err := at.Get(t.Context(), "web", metav1.GetOptions{})
			must(t, err)
			change(u.Object["spec"].(map[string]any))
			u, err = at.Update(t.Context(), u, metav1.UpdateOptions{FieldManager: "somebody"})
			must(t, err)
			if spec() == want {
				t.Errorf("%s: no change at all", name)
			}
			natstest.Eventually(t, "the cache shows it", func() bool {
				cached, err := k.Get(w.key("web"))
				return err == nil && cached.GetResourceVersion() == u.GetResourceVersion()
			})
			_, err = k.Apply(t.Context(), desired())
			must(t, err)
			if got := spec(); got != want {
				t.Errorf("%s, by %s:\n%s, want\n%s", name, who, got, want)
			}
		}
	}
	last := handle()
	writes := w.requests.writes("widgets")
	if result, err := last.Apply(t.Context(), desired()); err != nil ||
		result != controller.OperationResultNone || w.requests.writes("widgets") != writes {
		t.Errorf("without any drift: %q, %v, %d writes", result, err, w.requests.writes("widgets")-writes)
	}
}
