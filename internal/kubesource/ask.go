package kubesource

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

const (
	// probePatience is how long the API server has to answer a probe.
	probePatience = 5 * time.Second
	// waitsAfter is how soon a probe is answered that need not wait for a version: an API server waits three seconds.
	waitsAfter = 2 * time.Second
)

// ask probes in all namespaces; where that is not allowed, in one of which the store has objects and it is. It returns
// that namespace and the API server's version.
func (w *WatchErrors) ask(ctx context.Context) (namespace, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	prober := w.prober()
	version, err = prober.Probe(ctx, "", "")
	if !apierrors.IsForbidden(err) {
		return "", version, err
	}
	for namespace := range namespacesIn(w.informer.GetStore()) {
		if version, err := prober.Probe(ctx, namespace, ""); !apierrors.IsForbidden(err) {
			return namespace, version, err
		}
	}
	return "", "", err
}

// isYetToCome asks the API server whether a version is yet to come, as after a restore of etcd. It says so if it is
// asked for a list that is not older. One that keeps a cache waits for the version first, and then has the client ask
// again, for a minute in all; so that it waits is taken for that answer, if it answers meanwhile what needs no waiting.
func (w *WatchErrors) isYetToCome(ctx context.Context, namespace, version string) bool {
	probe := func(notOlderThan string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, waitsAfter)
		defer cancel()
		return w.prober().Probe(ctx, namespace, notOlderThan)
	}
	_, err := probe(version)
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	now, err := probe("")
	return err == nil && after(version, now)
}

// namespacesIn are the namespaces of the objects in a store.
func namespacesIn(store cache.Store) sets.Set[string] {
	namespaces := sets.New[string]()
	for _, key := range store.ListKeys() {
		namespaces.Insert(namespaceOf(key))
	}
	return namespaces.Delete("") // that of what has none
}

func namespaceOf(key string) string {
	namespace, _, _ := cache.SplitMetaNamespaceKey(key)
	return namespace
}
