package kube

import (
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	appsv1 "k8s.io/api/apps/v1"
)

// BenchmarkApply is of a Deployment with two containers: where nothing changed, known from the own last apply; the same for
// a process that has to find out from the managedFields; where it is somebody else who changed it all the time; and where
// each apply is a write.
func BenchmarkApply(b *testing.B) {
	w := newWorld(b)
	resource := appsv1.SchemeGroupVersion.WithResource("deployments")
	handle := func() *kube.Handle[*appsv1.Deployment] {
		informer := w.deployments()
		deployments, err := kube.New[*appsv1.Deployment](w.dynamic, resource, informer, manager)
		must(b, err)
		w.awaitSync(w.start(informer))
		return deployments
	}
	apply := func(deployments *kube.Handle[*appsv1.Deployment], d *appsv1.Deployment, want controller.OperationResult) {
		b.Helper()
		if result, err := deployments.Apply(b.Context(), d); err != nil || result != want {
			b.Fatalf("%q, %v", result, err)
		}
	}
	first := handle()
	apply(first, w.deployment("web"), controller.OperationResultCreated)
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			apply(first, w.deployment("web"), controller.OperationResultNone)
		}
	})
	second := handle()
	b.Run("unchanged, of another process", func(b *testing.B) {
		for b.Loop() {
			apply(second, w.deployment("web"), controller.OperationResultNone)
		}
	})
	b.Run("changed", func(b *testing.B) {
		for n := int32(0); b.Loop(); n++ {
			d := w.deployment("web")
			d.Spec.MinReadySeconds = 1 + n
			apply(first, d, controller.OperationResultUpdated)
		}
	})
}
