package kubesource

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
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

// TestAKeyThatReadsLikeAnothersHashFindsItsOwn, and the other one its own, though both are under one value of the
// index.
func TestAKeyThatReadsLikeAnothersHashFindsItsOwn(t *testing.T) {
	long := strings.Repeat("long", 30)
	literal := entity.OwnerLabelValue(long)
	informer := stillInformer()
	must(t, AddOwnerIndex(informer))
	for _, key := range []string{long, literal} {
		for _, marks := range []string{"annotations", "labels"} {
			obj := object(key[:8]+"-"+marks, key)
			if marks == "labels" {
				obj.Annotations = nil
			} else {
				obj.Labels = nil
			}
			must(t, informer.GetStore().Add(obj))
		}
	}
	for _, key := range []string{long, literal} {
		found, err := Owned(informer, "Site", key)
		if err != nil || len(found) != 2 {
			t.Errorf("%s has %d objects: %v", key[:8], len(found), err)
		}
		for _, obj := range found {
			if !strings.HasPrefix(obj.GetName(), key[:8]) {
				t.Errorf("%s has %q", key[:8], obj.GetName())
			}
		}
	}
}
