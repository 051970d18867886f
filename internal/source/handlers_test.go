package source

import (
	"sync"
	"testing"

	"k8s.io/client-go/tools/cache"
)

// TestAStopSyncsNothing: who still asks of a source that had not synced is told the same, also while it stops. A cascade
// would believe its absence, and it would be told to work again.
func TestAStopSyncsNothing(t *testing.T) {
	t.Parallel()
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, nil)
	var h Handlers
	if err := h.Add(informer, cache.ResourceEventHandlerFuncs{}); err != nil {
		t.Fatal(err)
	}
	synced := func() bool {
		for _, checker := range h.Synced() {
			select {
			case <-checker.Done():
			default:
				return false
			}
		}
		return true
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		for range 100 {
			if synced() {
				t.Error("it has synced while it stopped")
				return
			}
		}
	})
	h.Remove()
	asking.Wait()
	if synced() {
		t.Error("it has synced because it was stopped")
	}
}
