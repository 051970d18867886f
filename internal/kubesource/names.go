package kubesource

import (
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// AwaitName resumes a primary when the object of that key, which is somebody else's, is deleted or changes its owner.
// news is true if the primary did not wait for the object before: the object may have gone already, and no event will
// tell. ok is false if the source is over another informer.
func (s *Source) AwaitName(informer cache.SharedIndexInformer, object, primary string) (news, ok bool) {
	if s.informer != informer {
		return false, false
	}
	return s.names.await(object, primary), true
}

// ForgetNames forgets all names that a primary waits for.
func (s *Source) ForgetNames(primary string) { s.names.forget(primary) }

// resumeFor is for an object that is gone, or that another owns by now.
func (s *Source) resumeFor(obj metav1.Object) {
	for _, key := range s.names.take(source.ObjectKey(obj)) {
		s.host.Resume(key)
	}
}

// awaitedNames are the names of other people's objects that primaries wanted in their last attempt. The backoff of such
// a primary may be long; it need not wait for its end when the name is free.
type awaitedNames struct {
	size atomic.Int64 // of byObject; while it is 0, events need no lock

	mu                  sync.Mutex
	byObject, byPrimary map[string]sets.Set[string]
}

func newAwaitedNames() *awaitedNames {
	return &awaitedNames{byObject: map[string]sets.Set[string]{}, byPrimary: map[string]sets.Set[string]{}}
}

// await reports whether the primary did not wait for the object before.
func (n *awaitedNames) await(object, primary string) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byObject[object].Has(primary) {
		return false
	}
	insertInto(n.byObject, object, primary)
	insertInto(n.byPrimary, primary, object)
	n.size.Store(int64(len(n.byObject)))
	return true
}

// awaited reports whether any primary waits for an object.
func (n *awaitedNames) awaited(object string) bool {
	if n.size.Load() == 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byObject[object].Len() > 0
}

// take returns the primaries that wait for an object, and forgets the object.
func (n *awaitedNames) take(object string) []string { return n.remove(n.byObject, n.byPrimary, object) }

// forget is for a primary that is gone, or is tried now and will say anew which names it wants.
func (n *awaitedNames) forget(primary string) { n.remove(n.byPrimary, n.byObject, primary) }

// remove takes a key out of one map, and out of the other where it is a value.
func (n *awaitedNames) remove(of, other map[string]sets.Set[string], key string) []string {
	if n.size.Load() == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	values := of[key].UnsortedList()
	delete(of, key)
	for _, value := range values {
		if other[value].Delete(key).Len() == 0 {
			delete(other, value)
		}
	}
	n.size.Store(int64(len(n.byObject)))
	return values
}

func insertInto(m map[string]sets.Set[string], key, value string) {
	if m[key] == nil {
		m[key] = sets.New[string]()
	}
	m[key].Insert(value)
}
