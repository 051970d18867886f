package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// TestWhereNotAllMayBeListedTheNamespacesAre. Where they may not either, what the handle wrote and its cache never
// showed is read all the same, and the error says that this may not be all.
func TestWhereNotAllMayBeListedTheNamespacesAre(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		maps.own.Uncovered.Add("shop/settings", owner.Of(settings))
		if n, err := find("shop"); n != 1 || !apierrors.IsForbidden(err) {
			t.Errorf("found %d, %v; want what the handle wrote, and the refusal", n, err)
		}
	})
}

// TestWhatTheInformerDoesNotCoverIsBounded, and a teardown asks the API server where there may be more.
func TestWhatTheInformerDoesNotCoverIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		more := mapOf("more", "home")
		more.APIVersion, more.Kind = "v1", "ConfigMap"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, Items: []corev1.ConfigMap{*more}})
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, Transport: transport})
	must(t, err)
	maps, err := New[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps"), stillInformer())
	must(t, err)
	for n := range kubewrites.UncoveredMost {
		maps.own.Uncovered.Add(fmt.Sprint("elsewhere/", n), owner.Owner{Kind: "Site", Key: "shop", Instance: "here"})
	}
	maps.own.Uncovered.Add("elsewhere/more", owner.Owner{Kind: "Site", Key: "home", Instance: "here"})
	if n := len(maps.own.Uncovered.Of("Site", "shop")); n != kubewrites.UncoveredMost {
		t.Errorf("%d are kept, want %d", n, kubewrites.UncoveredMost)
	}
	found, err := maps.Deleter().(kubesource.LiveOwner).OwnedLive(t.Context(), "Site", "home", nil)
	must(t, err)
	if len(found) != 1 || found[0].GetName() != "more" {
		t.Errorf("found %v", found)
	}
}
