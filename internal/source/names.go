package source

import (
	"iter"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// AwaitName has a primary wait for another's object in a place to go. If that is news the primary has to look at the
// object once more: it may have gone before, and no event will tell. Where no source is over the place there are
// no events.
func AwaitName(sources []Source, place Place, object, primary string) (news bool) {
	for _, s := range sources {
		if s, ok := s.(Named); ok && s.Place() == place && s.AwaitName(object, primary) {
			news = true
		}
	}
	return news
}

// ForgetNames is for a primary that is gone, or is tried now and will say anew which names it wants.
func ForgetNames(sources []Source, primary string) {
	for _, s := range sources {
		if s, ok := s.(Named); ok {
			s.ForgetNames(primary)
		}
	}
}

// AwaitedNames iterates over the names that a primary waits for, each with the source that it is in.
func AwaitedNames(sources []Source, primary string) iter.Seq2[Source, string] {
	return func(yield func(Source, string) bool) {
		for _, s := range sources {
			named, ok := s.(Named)
			if !ok {
				continue
			}
			for _, object := range named.AwaitedBy(primary) {
				if !yield(s, object) {
					return
				}
			}
		}
	}
}

// namesKept bounds how many pairs of a name and a primary that waits for it a source keeps. A primary beyond them waits
// for its next retry.
const namesKept = 100_000

// Names are the names of other people's objects that primaries wanted in their last attempt. The backoff of such a
// primary may be long; it need not wait for its end when the name is free. The zero value is ready. Its methods may be
// called concurrently.
type Names struct {
	size atomic.Int64 // of byObject; while it is 0, events need no lock

	mu                  sync.Mutex
	pairs               int
	byObject, byPrimary map[string]sets.Set[string]
}

// AwaitName implements nameSource.
func (n *Names) AwaitName(object, primary string) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byObject[object].Has(primary) || n.pairs >= namesKept {
		return false
	}
	if n.byObject == nil {
		n.byObject, n.byPrimary = map[string]sets.Set[string]{}, map[string]sets.Set[string]{}
	}
	insertInto(n.byObject, object, primary)
	insertInto(n.byPrimary, primary, object)
	n.pairs++
	n.size.Store(int64(len(n.byObject)))
	return true
}

// IsAwaited reports whether any primary waits for obj.
func (n *Names) IsAwaited(obj metav1.Object) bool {
	if n.size.Load() == 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byObject[ObjectKey(obj)].Len() > 0
}

// Freed is for an object that is gone, or that another owns by now. It returns the primaries that wait for it, and
// forgets the object.
func (n *Names) Freed(object string) (primaries []string) {
	if n.size.Load() == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.removeLocked(n.byObject, n.byPrimary, object)
}

// AwaitedBy implements nameSource.
func (n *Names) AwaitedBy(primary string) (objects []string) {
	if n.size.Load() == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byPrimary[primary].UnsortedList()
}

// ForgetNames implements nameSource.
func (n *Names) ForgetNames(primary string) {
	if n.size.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeLocked(n.byPrimary, n.byObject, primary)
}

// removeLocked takes a key out of one map, and out of the other where it is a value.
func (n *Names) removeLocked(of, other map[string]sets.Set[string], key string) []string {
	values := of[key].UnsortedList()
	delete(of, key)
	for _, value := range values {
		if other[value].Delete(key).Len() == 0 {
			delete(other, value)
		}
	}
	n.pairs -= len(values)
	n.size.Store(int64(len(n.byObject)))
	return values
}

func insertInto(m map[string]sets.Set[string], key, value string) {
	if m[key] == nil {
		m[key] = sets.New[string]()
	}
	m[key].Insert(value)
}
