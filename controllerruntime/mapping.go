package controllerruntime

import (
	"context"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sync"
	"time"
)

// mapping is what a mapper is called for: the states of one object, as its events showed them, oldest first.
type mapping struct {
	events  *events
	objects []metav1.Object
	prio    queue.Priority
	retried bool
}

// mappingID names the object of a mapping within its source.
type mappingID struct {
	events *events
	object string
}

func (m *mapping) id() mappingID { return mappingID{m.events, objectKey(m.objects[0])} }

// mappingStatesKept bounds how many states of one object wait for a mapper that fails: the first, which tells whom it
// concerned before, and the latest. Whoever was concerned only in between hears of it with the resync.
const mappingStatesKept = 64

// mappings calls mappers, and again with backoff where one failed, so that its event is not lost.
type mappings struct {
	retries workqueue.TypedRateLimitingInterface[mappingID]
	done    chan struct{}

	mu      sync.Mutex
	waiting map[mappingID]*mapping
}

func newMappings(min, max time.Duration) *mappings {
	return &mappings{
		retries: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[mappingID](min, max)),
		done:    make(chan struct{}),
		waiting: map[mappingID]*mapping{},
	}
}

// run retries until stop is called.
func (m *mappings) run(ctx context.Context) {
	defer close(m.done)
	for {
		id, shutdown := m.retries.Get()
		if shutdown {
			return
		}
		if call := m.take(id); call != nil && m.call(ctx, call) {
			m.retries.Forget(id)
		}
		m.retries.Done(id)
	}
}

func (m *mappings) stop() {
	m.retries.ShutDown()
	<-m.done
}

func (m *mappings) take(id mappingID) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	call := m.waiting[id]
	if call != nil {
		call.retried = true
		delete(m.waiting, id)
	}
	return call
}

// again makes a mapping wait for its next try, together with what waits for the object already. Only the first of them
// counts as a failure: the backoff is not inflated by events that arrive meanwhile.
func (m *mappings) again(call *mapping) {
	id := call.id()
	m.mu.Lock()
	defer m.mu.Unlock()
	waits := m.waiting[id]
	if waits == nil {
		m.waiting[id] = call
		m.retries.AddRateLimited(id)
		return
	}
	older, newer := waits.objects, call.objects
	if call.retried { // what waits by now came while it was tried
		older, newer = newer, older
	}
	waits.objects = keepStates(append(older, newer...))
	waits.prio = max(waits.prio, call.prio)
}

func keepStates(states []metav1.Object) []metav1.Object {
	if excess := len(states) - mappingStatesKept; excess > 0 {
		states = append(states[:1:1], states[1+excess:]...)
	}
	return states
}

// call enqueues the keys of the objects, each key once. If a mapper fails nothing is enqueued, and all is tried again.
func (m *mappings) call(ctx context.Context, call *mapping) (done bool) {
	s := call.events
	var keys sets.Set[string]
	for _, obj := range call.objects {
		var found []string
		err := guard(func() (err error) {
			found, err = s.keys(ctx, obj)
			return err
		})
		if err != nil && ctx.Err() != nil {
			return false // the controller stops
		}
		if err != nil {
			s.engine.stats.mapperErrors.Add(1)
			klog.FromContext(ctx).Error(err, "Cannot map an object to the primaries it concerns, will try again",
				"source", s.source.String(), "object", klog.KObj(obj))
			m.again(call)
			return false
		}
		if len(call.objects) == 1 && len(found) == 1 {
			s.engine.noticed(found[0], operation.Of(s.operation), call.prio)
			return true
		}
		if keys == nil {
			keys = sets.New[string]()
		}
		keys.Insert(found...)
	}
	for key := range keys {
		s.engine.noticed(key, operation.Of(s.operation), call.prio)
	}
	return true
}
