package source

import (
	"iter"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// ObjectKey is client-go's key of an object: "name" or "namespace/name".
func ObjectKey(obj metav1.Object) string {
	return cache.ObjectName{Namespace: obj.GetNamespace(), Name: obj.GetName()}.String()
}

// All implements Owned.
func (s *NATS[T]) All() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for obj := range s.port.CachedDocuments() {
			if !yield(obj) {
				return
			}
		}
	}
}

// StoreObjects lists what a cache holds. The objects must not be modified.
func StoreObjects(store cache.Store) []metav1.Object {
	items := store.List()
	objects := make([]metav1.Object, 0, len(items))
	for _, item := range items {
		if obj, ok := item.(metav1.Object); ok {
			objects = append(objects, obj)
		}
	}
	return objects
}

// IsReserved tells whether a key of the status bucket is one of the runtime's own.
func IsReserved(key string) bool { return strings.HasPrefix(key, entity.ReservedPrefix) }

// MetaObject unwraps what an informer hands to its handlers.
func MetaObject(obj any) (metav1.Object, bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	accessor, err := meta.Accessor(obj)
	return accessor, err == nil
}
