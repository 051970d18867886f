package kubewrites

import (
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// identity tells one object in memory from all others, and does not keep it there: a cache may drop it. The zero
// identity is no object's.
type identity struct {
	metadata weak.Pointer[metav1.ObjectMeta] // of a typed object
	untyped  weak.Pointer[unstructured.Unstructured]
}

func identityOf(obj metav1.Object) identity {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return identity{untyped: weak.Make(u)}
	}
	return identity{metadata: weak.Make(metadataOf(obj))}
}

// is tells whether obj is that very object.
func (i identity) is(obj metav1.Object) bool {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u != nil && i.untyped.Value() == u
	}
	m := metadataOf(obj)
	return m != nil && i.metadata.Value() == m
}

// metadataOf returns what a typed object embeds; nil if it embeds none.
func metadataOf(obj metav1.Object) *metav1.ObjectMeta {
	if typed, ok := obj.(metav1.ObjectMetaAccessor); ok {
		m, _ := typed.GetObjectMeta().(*metav1.ObjectMeta)
		return m
	}
	return nil
}
