package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// kubeWorld is a world with config maps in client-go's fake API server.
func kubeWorld(t *testing.T, there ...runtime.Object) (*world, *kube.Handle[*corev1.ConfigMap], controller.Option) {
	t.Helper()
	w := newWorld(t)
	client := fake.NewSimpleDynamicClient(scheme.Scheme, there...)
	reconciletest.GiveIdentities(client)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(configMaps).Informer()
	if err := informer.SetTransform(func(obj any) (any, error) {
		time.Sleep(20 * time.Millisecond) // the cache is late
		return obj, nil
	}); err != nil {
		t.Fatal(err)
	}
	handle, err := kube.New[*corev1.ConfigMap](client, configMaps, informer, kube.WithFieldManager("sites"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { stop(); factory.Shutdown() })
	return w, handle, handle.Owns()
}

func configMap(name, greeting string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"greeting": greeting},
	}
}

func TestObjectsOfKubernetesAreOwnedListedAndTornDown(t *testing.T) {
	w, handle, owns := kubeWorld(t)
	greeting := "hello"
	write := func(ctx context.Context, name, greeting string) error {
		_, err := handle.CreateOrUpdate(ctx, configMap(name, ""), func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"greeting": greeting}
			return nil
		})
		return err
	}
	run := w.run(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if req.Operations.Has(controller.OperationDelete) {
			return controller.Result{}, nil
		}
		return controller.Result{}, errors.Join(write(ctx, "b", greeting), write(ctx, "a", "hello"))
	}, owns)
	w.put("shop")
	got := run.Reconcile(t.Context(), "shop")
	succeeded(t, got)
	wrote(t, got, "created ConfigMap default/a", "created ConfigMap default/b")
	obj := &corev1.ConfigMap{}
	if err := got.Written[1].Into(obj); err != nil || obj.Data["greeting"] != "hello" {
		t.Errorf("document %s: %v", got.Written[1].Document, err)
	}
	if kind, key, ok := controller.OwnerOf(obj); kind != "Site" || key != "shop" || !ok {
		t.Errorf("owner %s %q", kind, key)
	}
	again := run.Reconcile(t.Context(), "shop", controller.OperationResync)
	succeeded(t, again)
	wrote(t, again)
	greeting = "good evening"
	wrote(t, run.Reconcile(t.Context(), "shop"), "updated ConfigMap default/b")
	gone := run.Delete(t.Context(), "shop")
	succeeded(t, gone)
	wrote(t, gone, "deleted ConfigMap default/a", "deleted ConfigMap default/b")
	if !gone.TornDown {
		t.Error("it is not torn down")
	}
}

func TestAnObjectOfSomebodyElseIsRefusedWithAnEvent(t *testing.T) {
	w, handle, owns := kubeWorld(t, configMap("a", "mine"))
	run := w.run(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
		_, err := handle.CreateOrUpdate(ctx, configMap("a", ""), func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"greeting": "yours"}
			return nil
		})
		return controller.Result{}, err
	}, owns)
	w.put("shop")
	got := run.Reconcile(t.Context(), "shop")
	if _, ok := errors.AsType[*controller.ResourceExistsError](got.Err); !ok {
		t.Errorf("got %v", got.Err)
	}
	wrote(t, got)
	if !strings.Contains(fmt.Sprint(got.Events), "ErrResourceExists") {
		t.Errorf("events %v", got.Events)
	}
}
