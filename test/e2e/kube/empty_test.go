package kube

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestApplyOwnsNoStructThatNobodyHasSet, and those that somebody has set empty. Nothing is applied again for it, by a
// process that has not applied it either.
func TestApplyOwnsNoStructThatNobodyHasSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := w.deployment("web")
	want.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	want.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	informer := w.deployments()
	first := w.deploymentsOver(informer)
	result, err := first.Apply(t.Context(), want)
	must(t, err)
	if result != controller.OperationResultCreated {
		t.Errorf("it is %v", result)
	}
	got, err := w.clientset.AppsV1().Deployments(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	if got.Spec.Strategy.RollingUpdate == nil || got.Spec.Template.Spec.Volumes[0].EmptyDir == nil {
		t.Errorf("the server has %s", text(t, got.Spec))
	}
	owned := got.ManagedFields[0].FieldsV1.GetRawString()
	for _, field := range []string{`"f:strategy"`, `"f:resources":{}`, `"f:status"`, `"f:creationTimestamp"`} {
		if strings.Contains(owned, field) {
			t.Errorf("%s is ours: %s", field, owned)
		}
	}
	if !strings.Contains(owned, `"f:emptyDir":{}`) {
		t.Errorf("the emptyDir is not ours: %s", owned)
	}
	w.sees(informer, "web", got.ResourceVersion)
	second := w.deployments()
	fresh := w.deploymentsOver(second)
	w.sees(second, "web", got.ResourceVersion)
	for of, k := range map[string]*kube.Handle[*appsv1.Deployment]{"who applied it": first, "a new process": fresh} {
		if result, err := k.Apply(t.Context(), want); err != nil || result != controller.OperationResultNone {
			t.Errorf("%s: again it is %v, %v", of, result, err)
		}
	}
}
