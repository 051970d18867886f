package kubewrites

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnIdentityIsThatOfOneObjectAndKeepsItNot(t *testing.T) {
	for name, make := range map[string]func() metav1.Object{
		"typed":         func() metav1.Object { return &corev1.ConfigMap{Data: map[string]string{"a": "b"}} },
		"unstructured":  func() metav1.Object { return &unstructured.Unstructured{Object: map[string]any{"a": "b"}} },
		"metadata only": func() metav1.Object { return &metav1.PartialObjectMetadata{} },
	} {
		one, equal := make(), make()
		i := identityOf(one)
		if !i.is(one) || i.is(equal) || (identity{}).is(one) {
			t.Errorf("%s: of itself %v, of an equal one %v, none of it %v", name, i.is(one), i.is(equal),
				(identity{}).is(one))
		}
		gone := make()
		i = identityOf(gone)
		runtime.KeepAlive(gone)
		gone = nil
		runtime.GC()
		if i.metadata.Value() != nil || i.untyped.Value() != nil {
			t.Errorf("%s: the object is kept", name)
		}
	}
}
