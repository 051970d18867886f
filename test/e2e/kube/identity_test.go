package kube

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
)

// TestANamespaceThatLacksOrDoesNotBelongCostsOneRequest and one clear error, for each way to write.
func TestANamespaceThatLacksOrDoesNotBelongCostsOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	informer := informers.NewSharedInformerFactory(w.clientset, 0).Core().V1().Namespaces().Informer()
	spaces, err := kube.New[*corev1.Namespace](w.dynamic, corev1.SchemeGroupVersion.WithResource("namespaces"), informer,
		manager)
	must(t, err)
	w.awaitSync(w.start(informer))
	m, s := w.mine("settings", "one"), of(&corev1.Namespace{}, "home", "here")
	m.Namespace = ""
	s.Namespace, s.Name = w.namespace, w.namespace+"-other"
	for name, test := range map[string]struct {
		resource, advice string
		write            func(context.Context) error
	}{
		"Apply, lacks": {"configmaps", "give the object a namespace", func(ctx context.Context) error {
			_, err := maps.Apply(ctx, m)
			return err
		}},
		"CreateOrUpdate, lacks": {"configmaps", "give the object a namespace", func(ctx context.Context) error {
			_, err := maps.CreateOrUpdate(ctx, m.DeepCopy(), func(*corev1.ConfigMap) error { return nil })
			return err
		}},
		"AdoptOrFail, lacks": {"configmaps", "give the object a namespace", func(ctx context.Context) error {
			return maps.AdoptOrFail(ctx, m)
		}},
		"Apply, does not belong": {"namespaces", "take the namespace off the object", func(ctx context.Context) error {
			_, err := spaces.Apply(ctx, s)
			return err
		}},
		"CreateOrUpdate, does not belong": {"namespaces", "take the namespace off the object",
			func(ctx context.Context) error {
				_, err := spaces.CreateOrUpdate(ctx, s.DeepCopy(), func(*corev1.Namespace) error { return nil })
				return err
			}},
		"AdoptOrFail, does not belong": {"namespaces", "take the namespace off the object",
			func(ctx context.Context) error { return spaces.AdoptOrFail(ctx, s) }},
		"Delete, lacks": {"configmaps", "give the object a namespace", func(ctx context.Context) error {
			read := m.DeepCopy()
			read.UID = "some"
			return maps.Delete(ctx, read)
		}},
	} {
		before := w.requests.all()
		err := test.write(t.Context())
		says(t, err, test.resource, test.advice)
		if n := w.requests.all() - before; n > 1 {
			t.Errorf("%s: %d requests, want one", name, n)
		}
	}
	if _, err := w.clientset.CoreV1().Namespaces().Get(t.Context(), s.Name, metav1.GetOptions{}); !isNotFound(err) {
		t.Errorf("a namespace was made: %v", err)
	}
}

// all counts the requests, without watches.
func (r *requests) all() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for what, count := range r.counts {
		if what[:5] != "WATCH" {
			n += count
		}
	}
	return n
}
