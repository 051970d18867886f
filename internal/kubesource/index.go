package kubesource

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// AddOwnerIndex adds entity.OwnerIndex to an informer, unless the informer has it. It may be called concurrently.
func AddOwnerIndex(informer cache.SharedIndexInformer) error {
	if hasOwnerIndex(informer) {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{entity.OwnerIndex: func(obj any) ([]string, error) {
		if obj, ok := source.MetaObject(obj); ok {
			if value := entity.OwnerIndexValueOf(obj); value != "" {
				return []string{value}, nil
			}
		}
		return nil, nil
	}})
	if err != nil && hasOwnerIndex(informer) {
		return nil // another call was faster
	}
	return err
}

// hasOwnerIndex asks the index itself: the list of indexers is a map that may be written at the same time.
func hasOwnerIndex(informer cache.SharedIndexInformer) bool {
	_, err := informer.GetIndexer().ByIndex(entity.OwnerIndex, "")
	return err == nil
}

// Owned returns what an informer with the index has of the objects that name an owner of this kind and key; see
// entity.IsOwnedBy.
func Owned(informer cache.SharedIndexInformer, kind, key string) (owned []metav1.Object, err error) {
	for _, value := range entity.OwnerIndexValues(kind, key) {
		items, err := informer.GetIndexer().ByIndex(entity.OwnerIndex, value)
		if err != nil {
			return owned, err
		}
		for _, item := range items {
			if obj, ok := source.MetaObject(item); ok && entity.IsOwnedBy(obj, kind, key) {
				owned = append(owned, obj)
			}
		}
	}
	return owned, nil
}
