package kubesource

import (
	"testing"

	"k8s.io/client-go/tools/cache"
)

// overtaken is an informer to which another controller adds the index first.
type overtaken struct{ cache.SharedIndexInformer }

func (o overtaken) AddIndexers(indexers cache.Indexers) error {
	if err := o.SharedIndexInformer.AddIndexers(indexers); err != nil {
		return err
	}
	return o.SharedIndexInformer.AddIndexers(indexers)
}

func TestAnIndexThatAnotherControllerAddedFirstIsNoError(t *testing.T) {
	informer := overtaken{stillInformer()}
	if err := informer.AddIndexers(cache.Indexers{"x": nil}); err == nil {
		t.Fatal("an index is added twice")
	}
	must(t, AddOwnerIndex(informer))
}

// TestControllersThatStartAtOnceAddTheIndexOnce, and none of them fails because another was faster.
func TestControllersThatStartAtOnceAddTheIndexOnce(t *testing.T) {
	for range 300 {
		informer := stillInformer()
		errs := make(chan error, 8)
		start := make(chan struct{})
		for range cap(errs) {
			go func() {
				<-start
				errs <- AddOwnerIndex(informer)
			}()
		}
		close(start)
		for range cap(errs) {
			must(t, <-errs)
		}
	}
}
