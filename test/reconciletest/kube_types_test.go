package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
)

// clock is of a custom resource whose Go type has unexported fields.
type clock = entity.Object[clockSpec, struct{}]

type clockSpec struct {
	At    time.Time `json:"at"`
	Ticks int64     `json:"ticks"`
}

// TestWritesOfObjectsOfAnyTypeAreTold, as those with unexported fields in the objects of a typed informer, and with
// whole numbers as they were written.
func TestWritesOfObjectsOfAnyTypeAreTold(t *testing.T) {
	w := newWorld(t)
	clocks := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "clocks"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{clocks: "ClockList"})
	reconciletest.GiveIdentities(client)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(clocks).Informer()
	if err := informer.SetTransform(func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		typed := &clock{}
		return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed)
	}); err != nil {
		t.Fatal(err)
	}
	handle, err := kube.New[*clock](client, clocks, informer, kube.WithKind("Clock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { stop(); factory.Shutdown() })
	spec := clockSpec{time.Unix(1, 0).UTC(), 9007199254740993}
	run := w.run(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
		_, err := handle.CreateOrUpdate(ctx, &clock{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}},
			func(c *clock) error { c.Spec = spec; return nil })
		return controller.Result{}, err
	}, handle.Owns())
	w.put("shop")
	wrote(t, run.Reconcile(t.Context(), "shop"), "created Clock default/a")
	wrote(t, run.Reconcile(t.Context(), "shop"))
	for _, next := range []clockSpec{
		{spec.At.Add(time.Nanosecond), spec.Ticks}, {spec.At.Add(time.Nanosecond), spec.Ticks + 2},
	} {
		spec = next
		got := run.Reconcile(t.Context(), "shop")
		succeeded(t, got)
		wrote(t, got, "updated Clock default/a")
		read := &clock{}
		if err := got.Written[0].Into(read); err != nil || read.Spec != spec {
			t.Errorf("written %+v, want %+v (%v)", read.Spec, spec, err)
		}
		wrote(t, run.Reconcile(t.Context(), "shop"))
	}
}
