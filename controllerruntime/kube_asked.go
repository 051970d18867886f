package controllerruntime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// kubeAskedMost is for how many primaries one list asks. Each is a label's value in the request's URL, which proxies cut
	// off at 8 KiB.
	kubeAskedMost = 100
	// kubeAskedGap is the pause between two lists, in which others who have to ask gather.
	kubeAskedGap = 50 * time.Millisecond
)

// ownedLister lists by labels what primaries own, of all who write it.
type ownedLister interface {
	listOwned(ctx context.Context, kind string, keys []string) (map[string][]metav1.Object, error)
}

// askedKeys are the primaries whose teardowns ask the API server what they still own. A list looks at all objects of the
// resource there, so one for each would cost the square of what there is.
type askedKeys struct {
	wake chan struct{}
	size atomic.Int64 // of all three, to keep the lock away from who does not ask

	mu      sync.Mutex
	waiting sets.Set[string] // for a list
	asking  sets.Set[string] // in the list that runs
	answers map[string]askedAnswer

	loop sync.WaitGroup
}

type askedAnswer struct {
	objects []metav1.Object
	err     error
}

func newAskedKeys() *askedKeys {
	return &askedKeys{
		wake: make(chan struct{}, 1), waiting: sets.New[string](), asking: sets.New[string](), answers: map[string]askedAnswer{},
	}
}

// ask returns what a list said that was begun after it was first asked for the key. Until then known is false, and the key is
// due when it is known. That there is nothing stays the answer until the key is forgotten; of any other the caller makes
// something, and then has to ask again.
func (a *askedKeys) ask(key string) (objects []metav1.Object, known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.countLocked()
	answer, known := a.answers[key]
	switch {
	case known && answer.err == nil && len(answer.objects) == 0:
	case known:
		delete(a.answers, key)
	case !a.asking.Has(key):
		a.waiting.Insert(key)
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return answer.objects, known, answer.err
}

// next returns whom the next list is for.
func (a *askedKeys) next() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.asking.Len() < kubeAskedMost && a.waiting.Len() > 0 {
		key, _ := a.waiting.PopAny()
		a.asking.Insert(key)
	}
	return a.asking.UnsortedList()
}

// tell returns who still wants to know what the list said.
func (a *askedKeys) tell(found map[string][]metav1.Object, err error) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.asking.UnsortedList()
	for _, key := range told {
		a.answers[key] = askedAnswer{found[key], err}
	}
	clear(a.asking)
	return told
}

func (a *askedKeys) forget(key string) {
	if a.size.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting.Delete(key)
	a.asking.Delete(key)
	delete(a.answers, key)
	a.countLocked()
}

func (a *askedKeys) forgetAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.waiting)
	clear(a.asking)
	clear(a.answers)
	a.countLocked()
}

func (a *askedKeys) countLocked() {
	a.size.Store(int64(a.waiting.Len() + a.asking.Len() + len(a.answers)))
}

// answerAsked lists whenever somebody asks, until ctx ends.
func (s *kubeSource) answerAsked(ctx context.Context, lister ownedLister) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.asked.wake:
		}
		for keys := s.asked.next(); len(keys) > 0; keys = s.asked.next() {
			for _, key := range s.asked.tell(lister.listOwned(ctx, s.engine.kind, keys)) {
				s.engine.resume(item{key: key})
			}
			if !sleep(ctx, kubeAskedGap) {
				return
			}
		}
	}
}
