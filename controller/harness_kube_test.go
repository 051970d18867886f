package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// kubeInformer is client-go's fake of an API server that has ConfigMaps, and an informer that runs over it. What is
// added between the informer's list and its watch makes this fake ask for another list, which comes a second later.
func kubeInformer(
	t *testing.T, initial ...*corev1.ConfigMap,
) (*fcache.FakeControllerSource, cache.SharedIndexInformer) {
	t.Helper()
	return kubeInformerOf(t, 0, initial...)
}

// kubeInformerOf is kubeInformer with a resync of its own.
func kubeInformerOf(
	t *testing.T, resync time.Duration, initial ...*corev1.ConfigMap,
) (*fcache.FakeControllerSource, cache.SharedIndexInformer) {
	t.Helper()
	server := fcache.NewFakeControllerSource()
	for _, m := range initial {
		server.Add(m)
	}
	informer := cache.NewSharedIndexInformer(server, &corev1.ConfigMap{}, resync, cache.Indexers{})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		informer.Run(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		server.Shutdown()
	})
	return server, informer
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Data: map[string]string{"value": value}}
}

func newPage(name, title string) *page { return newSite(name, title) }
