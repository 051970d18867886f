package controllerruntime

import (
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// blockedKeys are the primaries whose last attempt wanted the name of somebody's object. Their backoff may be long;
// when the name is free they need not wait for its end.
type blockedKeys struct {
	size atomic.Int64 // objects, to keep the lock out of events while nobody waits

	mu                  sync.Mutex
	byObject, byPrimary map[string]sets.Set[string]
}

func newBlockedKeys() *blockedKeys {
	return &blockedKeys{byObject: map[string]sets.Set[string]{}, byPrimary: map[string]sets.Set[string]{}}
}

// add tells whether it is news.
func (b *blockedKeys) add(object, primary string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byObject[object].Has(primary) {
		return false
	}
	insertInto(b.byObject, object, primary)
	insertInto(b.byPrimary, primary, object)
	b.size.Store(int64(len(b.byObject)))
	return true
}

// take returns who waits for an object, and forgets it.
func (b *blockedKeys) take(object string) []string { return b.remove(b.byObject, b.byPrimary, object) }

// forget is for a primary that is tried now, and says anew what it wants, or that is gone.
func (b *blockedKeys) forget(primary string) { b.remove(b.byPrimary, b.byObject, primary) }

// remove takes a key out of one map, and out of the other where it is a value.
func (b *blockedKeys) remove(of, other map[string]sets.Set[string], key string) []string {
	if b.size.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	values := of[key].UnsortedList()
	delete(of, key)
	for _, value := range values {
		if other[value].Delete(key).Len() == 0 {
			delete(other, value)
		}
	}
	b.size.Store(int64(len(b.byObject)))
	return values
}

// wanted tells whether anybody waits for an object.
func (b *blockedKeys) wanted(object string) bool {
	if b.size.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byObject[object].Len() > 0
}

func insertInto(m map[string]sets.Set[string], key, value string) {
	if m[key] == nil {
		m[key] = sets.New[string]()
	}
	m[key].Insert(value)
}

// awaitName has a primary wait for somebody's object to go. If that is news it has to look at the object once more: it
// may have gone before, and no event will tell.
func (e *engine) awaitName(informer cache.SharedIndexInformer, object, primary string) (news bool) {
	for _, s := range e.sources {
		if s, ok := s.(*kubeSource); ok && s.informer == informer {
			return s.blocked.add(object, primary)
		}
	}
	return false
}

// unblock is for an object that is gone, or another's by now.
func (s *kubeSource) unblock(obj metav1.Object) {
	for _, key := range s.blocked.take(source.ObjectKey(obj)) {
		s.engine.resume(queue.Item{Key: key})
	}
}

func (e *engine) forgetBlocked(primary string) {
	for _, s := range e.sources {
		if s, ok := s.(*kubeSource); ok {
			s.blocked.forget(primary)
		}
	}
}
