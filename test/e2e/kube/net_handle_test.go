package kube

import (
	"context"
	"errors"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAChangeThatTheServerUndidIsAskedForOnceTheObjectHasChanged: the answer that a change has no effect holds for one
// version of the object. If somebody changes a server's default, that is drift, and is undone.
func TestAChangeThatTheServerUndidIsAskedForOnceTheObjectHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	informer := w.deployments()
	resource := appsv1.SchemeGroupVersion.WithResource("deployments")
	deployments, err := kube.New[*appsv1.Deployment](w.dynamic, resource, informer, manager)
	must(t, err)
	w.awaitSync(w.start(informer))
	write := func() controller.OperationResult {
		result, err := deployments.CreateOrUpdate(ctx, w.deployment("web"), func(d *appsv1.Deployment) error {
			d.Spec = w.deployment("web").Spec
			return nil
		})
		must(t, err)
		return result
	}
	live := w.clientset.AppsV1().Deployments(w.namespace)
	history := func() int32 {
		d, err := live.Get(ctx, "web", metav1.GetOptions{})
		must(t, err)
		return *d.Spec.RevisionHistoryLimit
	}
	write()
	byDefault := history()
	for range 2 {
		if result := write(); result != controller.OperationResultNone {
			t.Errorf("again: %q", result)
		}
	}
	patch := []byte(`{"spec":{"revisionHistoryLimit":3}}`)
	changed, err := live.Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	natstest.Eventually(t, "the cache shows the change", func() bool {
		d, err := deployments.Get(w.key("web"))
		return err == nil && d.ResourceVersion == changed.ResourceVersion
	})
	if result := write(); result != controller.OperationResultUpdated || history() != byDefault {
		t.Errorf("%q, and the limit is %d, want %d", result, history(), byDefault)
	}
}

// TestWhatTheLabelsGiveToAnotherIsNotTakenBack: somebody removed the annotations of an object and named another owner
// in its labels, which is enough to own it. Then it no longer counts that this process wrote the object.
func TestWhatTheLabelsGiveToAnotherIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	write := func(ctx context.Context) error {
		_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", "ours"), func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"value": "ours"}
			return nil
		})
		return err
	}
	must(t, w.inReconcile("home", write))
	given := w.updateMap("settings", func(m *corev1.ConfigMap) {
		m.Annotations = nil
		m.Labels[controller.OwnerKeyLabel] = "away"
		m.Data["value"] = "theirs"
	})
	natstest.Eventually(t, "the cache shows it", func() bool {
		m, err := maps.Get(w.key("settings"))
		return err == nil && m.ResourceVersion == given.ResourceVersion
	})
	var exists *controller.ResourceExistsError
	if err := w.inReconcile("home", write); !errors.As(err, &exists) {
		t.Errorf("%v, want a ResourceExistsError", err)
	}
	if m := w.liveMap("settings"); m.Data["value"] != "theirs" {
		t.Errorf("it was taken back: %v", m.Data)
	}
}
