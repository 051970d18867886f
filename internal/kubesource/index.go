package kubesource

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
)

// AddOwnerIndex adds entity.OwnerIndex to an informer, unless the informer has it. It may be called concurrently.
func AddOwnerIndex(informer cache.SharedIndexInformer) error {
	if hasOwnerIndex(informer) {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{entity.OwnerIndex: func(obj any) ([]string, error) {
		if obj, ok := source.MetaObject(obj); ok {
			if kind, key, ok := entity.OwnerOf(obj); ok {
				return []string{entity.OwnerIndexValue(kind, key)}, nil
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
