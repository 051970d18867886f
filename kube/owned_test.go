package kube

import (
	"errors"
	"testing"

	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/owner"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// TestWhereNotAllMayBeListedTheNamespacesAre. Where they may not either, what the handle wrote and its cache never
// showed is read all the same, and the error says that this may not be all.
func TestWhereNotAllMayBeListedTheNamespacesAre(t *testing.T) {
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	settings := mapOf("settings", "home")
	client := fake.NewSimpleDynamicClient(scheme.Scheme, settings)
	allowed := "shop"
	client.PrependReactor("list", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == allowed {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no rights"))
	})
	maps, err := New[*corev1.ConfigMap](client, resource, stillInformer())
	must(t, err)
	find := func(namespaces ...string) (int, error) {
		found, err := maps.Deleter().(kubesource.LiveOwner).OwnedLive(t.Context(), "Site", "home",
			func() []string { return namespaces })
		return len(found), err
	}
	if n, err := find("shop"); n != 1 || err != nil {
		t.Errorf("in the namespace: found %d, %v", n, err)
	}
	for _, namespaces := range [][]string{nil, {"shop", "another"}} {
		if n, err := find(namespaces...); n != 0 || !apierrors.IsForbidden(err) {
			t.Errorf("in %q: found %d, %v", namespaces, n, err)
		}
	}
	allowed = "none"
	maps.own.uncovered.Add("shop/settings", owner.Of(settings))
	if n, err := find("shop"); n != 1 || !apierrors.IsForbidden(err) {
		t.Errorf("found %d, %v; want what the handle wrote, and the refusal", n, err)
	}
}
