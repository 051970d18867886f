package kube

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says checks that an error names what it is about.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

// stillInformer is a Kubernetes informer that nobody starts.
func stillInformer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Data: map[string]string{"value": value}}
}

func version(uid, version string) *corev1.ConfigMap {
	m := configMap("settings", version)
	m.UID, m.ResourceVersion = types.UID(uid), version
	return m
}

func mapOf(name, owner string) *corev1.ConfigMap {
	m := version(name, "1")
	m.Name = name
	entity.SetOwner(m, "Site", owner, "here")
	return m
}
