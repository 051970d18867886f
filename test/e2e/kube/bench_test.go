package kube

import (
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	appsv1 "k8s.io/api/apps/v1"
)

// BenchmarkApply applies a Deployment with two containers. Either nothing changed and the process knows that from its
// own last apply; or the process has to find that out from the managedFields; or somebody else changes the object all
// the time; or each apply is a write.
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
