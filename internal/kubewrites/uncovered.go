package kubewrites

import (
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// UncoveredMost bounds how many objects are remembered that the cache does not show.
	UncoveredMost = 16384
	// uncoveredLook is how often at most all of them are looked up in the cache when there is no room for more: the
	// cache may show some by then.
	uncoveredLook = time.Second
)

// Uncovered are objects that were written, and that the cache never showed though it has come so far, with their
// owners. Maybe they were deleted soon; maybe the informer does not cover them. Only the API server can tell.
type Uncovered struct {
	Stored func(key string) metav1.Object // what the cache has

	mu     sync.Mutex
	owners map[string]owner.Owner // by key of the object
	looked time.Time              // when those were dropped the last time that the cache shows by then
}

// Add remembers an object; what has no owner no teardown needs.
func (u *Uncovered) Add(key string, primary owner.Owner) {
	if primary.IsNone() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.owners) >= UncoveredMost && time.Since(u.looked) >= uncoveredLook {
		u.dropShownLocked()
	}
	if len(u.owners) >= UncoveredMost {
		return // the list by labels has it
	}
	if u.owners == nil {
		u.owners = map[string]owner.Owner{}
	}
	u.owners[key] = primary
}

// Remove forgets an object that does not exist.
func (u *Uncovered) Remove(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.owners, key)
}

// Of returns the keys of a primary's objects, but for those that were too many to remember.
func (u *Uncovered) Of(kind, key string) (names []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, primary := range u.owners {
		if primary.Kind == kind && primary.Key == key {
			names = append(names, name)
		}
	}
	return names
}

// DropShown forgets those that the cache shows after all, as it does when a watch goes on that had stalled.
func (u *Uncovered) DropShown() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropShownLocked()
}

func (u *Uncovered) dropShownLocked() {
	for key := range u.owners {
		if u.Stored(key) != nil {
			delete(u.owners, key)
		}
	}
	u.looked = time.Now()
}
