package kube

import (
	"context"
	"reflect"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// gadget is an older Go type of the Widget: newer versions have fields that it does not know.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Items []gadgetItem `json:"items,omitempty"`
		Lines []gadgetLine `json:"lines,omitempty"`
	} `json:"spec,omitempty"`
}

type gadgetItem struct {
	Name  string       `json:"name"`
	Value string       `json:"value,omitempty"`
	Lines []gadgetLine `json:"lines,omitempty"`
}

type gadgetLine struct {
	Text string `json:"text"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	c := *g
	c.ObjectMeta = *g.ObjectMeta.DeepCopy()
	c.Spec.Lines = append([]gadgetLine(nil), g.Spec.Lines...)
	c.Spec.Items = append([]gadgetItem(nil), g.Spec.Items...)
	for i := range c.Spec.Items {
		c.Spec.Items[i].Lines = append([]gadgetLine(nil), g.Spec.Items[i].Lines...)
	}
	return &c
}

// TestFieldsThatTheTypeDoesNotKnowStay, in items of lists too, whether the cache has them or not.
func TestFieldsThatTheTypeDoesNotKnowStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Namespaced")
	w.install(resource, crd)
	at := w.dynamic.Resource(resource).Namespace(w.namespace)
	for name, transform := range map[string]cache.TransformFunc{
		"unstructured": nil,
		"typed": func(obj any) (any, error) { // as in a typed informer
			u, ok := obj.(interface{ UnstructuredContent() map[string]any })
			if !ok {
				return obj, nil
			}
			g := &gadget{}
			return g, runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), g)
		},
	} {
		u := of(w.widget(resource, w.namespace, name[:1], "x"), "home", "here")
		u.Object["spec"] = map[string]any{
			"unknown": "stays",
			"items": []any{
				map[string]any{
					"name": "a", "value": "1", "new": "of a",
					"lines": []any{map[string]any{"text": "x", "new": "of x"}},
				},
				map[string]any{"name": "b", "value": "1", "new": "of b"},
				map[string]any{"name": "c", "value": "1", "new": "of c"},
			},
			"lines": []any{
				map[string]any{"text": "one", "new": "of one"},
				map[string]any{"text": "two", "new": "of two"},
			},
		}
		_, err := at.Create(t.Context(), u, metav1.CreateOptions{})
		must(t, err)
		informer := dynamicinformer.NewFilteredDynamicInformer(
			w.dynamic, resource, w.namespace, 0, cache.Indexers{}, nil).Informer()
		if transform != nil {
			must(t, informer.SetTransform(transform))
		}
		gadgets, err := kube.New[*gadget](w.dynamic, resource, informer, kube.WithKind("Widget"), manager)
		must(t, err)
		w.awaitSync(w.start(informer))
		g := of(&gadget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name[:1]}}, "home", "here")
		_, err = gadgets.CreateOrUpdate(t.Context(), g, func(g *gadget) error {
			items := g.Spec.Items // a is changed, b removed, c moved, d new
			items[0].Lines[0].Text = "y"
			g.Spec.Items = []gadgetItem{{Name: "d"}, items[2], items[0]}
			g.Spec.Lines[1].Text = "TWO"
			return nil
		})
		must(t, err)
		live, err := at.Get(t.Context(), name[:1], metav1.GetOptions{})
		must(t, err)
		want := map[string]any{
			"unknown": "stays",
			"items": []any{
				map[string]any{"name": "d"},
				map[string]any{"name": "c", "value": "1", "new": "of c"},
				map[string]any{
					"name": "a", "value": "1", "new": "of a",
					"lines": []any{map[string]any{"text": "y", "new": "of x"}},
				},
			},
			"lines": []any{
				map[string]any{"text": "one", "new": "of one"},
				map[string]any{"text": "TWO", "new": "of two"},
			},
		}
		if got := live.Object["spec"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%v, want\n%v", name, got, want)
		}
	}
}

// TestAnOwnerThatSomebodyWipedIsSetAgain by Apply and CreateOrUpdate, in a process that wrote the object or has seen it
// in order; to another process the object is nobody's.
func TestAnOwnerThatSomebodyWipedIsSetAgain(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *world, *kube.Handle[*corev1.ConfigMap]) error{
		"Apply": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.Apply(ctx, w.configMap("settings", "one"))
			return err
		},
		"CreateOrUpdate": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", "one"), func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"value": "one"}
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wipe := func(m *corev1.ConfigMap) { m.Labels, m.Annotations = nil, nil }
			owned := func() bool {
				_, key, ok := controller.OwnerOf(w.liveMap("settings"))
				return ok && key == "home"
			}
			must(t, w.sites.Create(t.Context(), newSite("home")))
			for _, process := range []string{"first", "second"} { // the second only finds it in order
				maps := w.maps()
				var seen calls
				run := w.run(w.applied(func(ctx context.Context, _ string) error {
					return write(ctx, w, maps)
				}, &seen, maps.Owns()))
				natstest.Eventually(t, process+" is at rest", func() bool {
					return w.liveMap("settings") != nil && owned() && seen.count("home") > 0
				})
				w.updateMap("settings", wipe)
				natstest.Eventually(t, process+" sets the owner again", owned)
				run.halt()
			}
			w.updateMap("settings", wipe)
			maps := w.maps()
			if err := w.inReconcile("home", func(ctx context.Context) error {
				return write(ctx, w, maps)
			}); err == nil || owned() {
				t.Error("a process that knows nothing of it took it over")
			}
		})
	}
}

// TestAChangeThatTheServerUndoesIsNoUpdate, and is sent only once: mutate sets the whole spec and so removes defaults,
// which the API server then sets again.
func TestAChangeThatTheServerUndoesIsNoUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := w.deployments()
	deployments, err := kube.New[*appsv1.Deployment](w.dynamic,
		appsv1.SchemeGroupVersion.WithResource("deployments"), informer, manager)
	must(t, err)
	w.awaitSync(w.start(informer))
	write := func(replicas int32) controller.OperationResult {
		d := w.deployment("web")
		result, err := deployments.CreateOrUpdate(t.Context(), d, func(d *appsv1.Deployment) error {
			d.Spec = w.deployment("web").Spec
			d.Spec.Replicas = &replicas
			return nil
		})
		must(t, err)
		return result
	}
	if result := write(1); result != controller.OperationResultCreated {
		t.Errorf("the first: %q", result)
	}
	writes, reads := w.requests.writes("deployments"), w.requests.of("GET deployments")
	for range 5 {
		if result := write(1); result != controller.OperationResultNone {
			t.Errorf("again: %q", result)
		}
	}
	// The first may find that the cache does not have its creation yet, and then reads once more.
	if writes, reads := w.requests.writes("deployments")-writes,
		w.requests.of("GET deployments")-reads; writes > 1 || reads > 2 {
		t.Errorf("%d writes and %d reads, though the first showed that it changes nothing", writes, reads)
	}
	if result := write(2); result != controller.OperationResultUpdated {
		t.Errorf("a change: %q", result)
	}
}

// TestAnObjectWithoutANameIsRefusedWithoutARequest: with generateName each reconcile would make another object.
func TestAnObjectWithoutANameIsRefusedWithoutARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	for name, m := range map[string]*corev1.ConfigMap{
		"generateName": {ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "settings-"}},
		"neither":      {ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace}},
	} {
		writes, reads := w.requests.writes("configmaps"), w.requests.of("GET configmaps")
		for verb, write := range map[string]func(context.Context) (controller.OperationResult, error){
			"create or update": func(ctx context.Context) (controller.OperationResult, error) {
				return maps.CreateOrUpdate(ctx, m.DeepCopy(), func(m *corev1.ConfigMap) error {
					m.Data = map[string]string{"value": "one"}
					return nil
				})
			},
			"apply": func(ctx context.Context) (controller.OperationResult, error) { return maps.Apply(ctx, m) },
		} {
			err := w.inReconcile("home", func(ctx context.Context) error {
				result, err := write(ctx)
				if result != controller.OperationResultNone {
					t.Errorf("%s, %s: the result is %q, want none", name, verb, result)
				}
				return err
			})
			says(t, err, verb, "configmaps", "has no name; give it one")
		}
		if n := w.requests.writes("configmaps") - writes; n > 0 {
			t.Errorf("%s: %d writes were sent, want none", name, n)
		}
		if n := w.requests.of("GET configmaps") - reads; n > 0 {
			t.Errorf("%s: %d reads were sent, want none", name, n)
		}
	}
}
