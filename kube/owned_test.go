package kube

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/owner"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

// TestWhereNothingMayBeListedTheCacheTellsAndTheLogSaysSoOnce. What the handle wrote and its cache never showed is read.
func TestWhereNothingMayBeListedTheCacheTellsAndTheLogSaysSoOnce(t *testing.T) {
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	settings := mapOf("settings", "home")
	client := fake.NewSimpleDynamicClient(scheme.Scheme, settings)
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no rights"))
	})
	maps, err := New[*corev1.ConfigMap](client, resource, stillInformer())
	must(t, err)
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}))
	deleter := maps.Deleter().(kubesource.LiveOwner)
	for range 3 {
		if found, err := deleter.OwnedLive(ctx, "Site", "home"); err != nil || len(found) != 0 {
			t.Errorf("found %v, %v", found, err)
		}
	}
	if n := strings.Count(log.String(), "May not list"); n != 1 {
		t.Errorf("it is said %d times, want once: %s", n, &log)
	}
	maps.own.uncovered.add("shop/settings", owner.Of(settings))
	if found, err := deleter.OwnedLive(ctx, "Site", "home"); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v; want what the handle wrote", found, err)
	}
}
