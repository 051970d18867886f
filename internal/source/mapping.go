package source

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
)

// mapping is what a mapper is called for: the states of one object, as its events showed them, oldest first.
type mapping struct {
	events  *Events
	objects []metav1.Object
	prio    queue.Priority
	retried bool
	deleted bool
	cause   *causes.Cause // of the newest state; nil if it is not known
}

// mappingID names the object of a mapping within its source.
type mappingID struct {
	events *Events
	object string
}

func (m *mapping) id() mappingID { return mappingID{m.events, ObjectKey(m.objects[0])} }

// name is what the log calls the object.
func (m *mapping) name() string { return namesOf(m.events.Source) + ObjectKey(m.objects[0]) }

// namesOf is how the names of the objects of a source begin.
func namesOf(s fmt.Stringer) string { return s.String() + " " }

// mappingStatesKept bounds how many states of one object wait for a mapper that fails: the first, which tells whom it
// concerned before, and the latest. Whoever was concerned only in between hears of it with the resync.
const mappingStatesKept = 64

// mappingsKept bounds how many objects wait for a mapper that fails. What comes beyond is not kept: when a mapper works
// again all primaries are due, since it is not known which ones it concerned.
const mappingsKept = 100_000

// Mappings calls mappers, and again with backoff where one failed, so that its event is not lost.
type Mappings struct {
	enqueue Enqueuer
	failed  func() // called for each call of a mapper that failed
	all     func() // makes all primaries due
	most    int    // see mappingsKept

	shortest, longest time.Duration
	retries           workqueue.TypedRateLimitingInterface[mappingID]
	running           sync.WaitGroup
	reports           notify.Reports

	mu      sync.Mutex
	waiting map[mappingID]*mapping
	trying  *trying // what is called again just now; nil if nothing is
	behind  map[*Events]*Behind
	dropped bool // something beyond most, since all was called
}

// NewMappings bounds the backoff of a mapper that fails, and has failed called each time. all makes all primaries due.
// Start starts it.
func NewMappings(enqueue Enqueuer, shortest, longest time.Duration, failed, all func()) *Mappings {
	return &Mappings{
		enqueue: enqueue, failed: failed, all: all, most: mappingsKept, shortest: shortest, longest: longest,
		waiting: map[mappingID]*mapping{}, behind: map[*Events]*Behind{},
	}
}

// Start makes it retry, until Stop, under ctx. It must be called before the first event.
func (m *Mappings) Start(ctx context.Context) {
	delays := workqueue.NewTypedItemExponentialFailureRateLimiter[mappingID](m.shortest, m.longest)
	m.retries = workqueue.NewTypedRateLimitingQueue(delays)
	m.running.Go(func() { m.run(ctx) })
}

func (m *Mappings) run(ctx context.Context) {
	for {
		id, shutdown := m.retries.Get()
		if shutdown {
			return
		}
		if call, ctx := m.take(ctx, id); call != nil && m.call(ctx, call) {
			m.retries.Forget(id)
			m.makeUp()
		}
		m.tried()
		m.retries.Done(id)
	}
}

// Stop waits for a mapper that is called just now, and retries no more.
func (m *Mappings) Stop() {
	m.retries.ShutDown()
	m.running.Wait()
}

// Waiting is the number of objects whose mapper failed and is called again.
func (m *Mappings) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// Behind says that a mapper has failed for objects of a source: whom their events concern is not known yet.
type Behind struct {
	Objects int
	Since   time.Time // when it failed first, of those that have not succeeded since
	Err     error     // the last
}

// BehindIn tells whether the mapper of a source is called again for some objects.
func (m *Mappings) BehindIn(s fmt.Stringer) (behind Behind, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for events, b := range m.behind {
		if events.Source == s {
			return *b, true
		}
	}
	return Behind{}, false
}

// noteBehindLocked is for a call that has failed. waits says that the object waits, or is tried, already.
func (m *Mappings) noteBehindLocked(call *mapping, waits bool, err error) {
	behind := m.behind[call.events]
	if behind == nil {
		behind = &Behind{Since: time.Now()}
		m.behind[call.events] = behind
	}
	if behind.Err = err; !waits {
		behind.Objects++
	}
}

// again makes a mapping wait for its next try, together with what waits for the object already. Only the first of them
// counts as a failure: the backoff is not inflated by events that arrive meanwhile.
func (m *Mappings) again(call *mapping, err error) {
	id := call.id()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trying != nil && m.trying.mapping == call && m.trying.gone {
		m.retries.Forget(id)
		return
	}
	waits := m.waiting[id]
	if waits == nil && len(m.waiting) >= m.most {
		m.dropped = true
		m.retries.Forget(id)
		return
	}
	m.noteBehindLocked(call, waits != nil || m.trying != nil && m.trying.id() == id, err)
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
	if !call.retried || waits.cause == nil {
		waits.cause = call.cause
	}
}

// makeUp is for a mapper that works again: it stands in for what was dropped.
func (m *Mappings) makeUp() {
	m.mu.Lock()
	dropped := m.dropped
	m.dropped = false
	m.mu.Unlock()
	if dropped {
		m.all()
	}
}

func keepStates(states []metav1.Object) []metav1.Object {
	if excess := len(states) - mappingStatesKept; excess > 0 {
		states = append(states[:1:1], states[1+excess:]...)
	}
	return states
}

// call enqueues the keys of the objects, each key once. If a mapper fails nothing is enqueued, and all is tried again.
func (m *Mappings) call(ctx context.Context, call *mapping) (done bool) {
	s := call.events
	var keys sets.Set[string]
	for _, obj := range call.objects {
		var found []string
		err := guard.Call(func() (err error) {
			found, err = s.Keys(ctx, obj)
			return err
		})
		if err != nil && ctx.Err() != nil {
			return false // the controller stops
		}
		if err != nil {
			m.failed()
			m.reports.Log(ctx, err, "Cannot map an object to the primaries it concerns, will try again", call.name())
			m.again(call, err)
			return false
		}
		if len(call.objects) == 1 && len(found) == 1 {
			m.mended(call)
			m.notice(found[0], call)
			return true
		}
		if keys == nil {
			keys = sets.New[string]()
		}
		keys.Insert(found...)
	}
	m.mended(call)
	for key := range keys {
		m.notice(key, call)
	}
	return true
}

// notice makes a key due. What shows an object as it was is a resync: nothing has happened.
func (m *Mappings) notice(key string, call *mapping) {
	m.tell(key, call)
	op, prio := call.events.Operation, call.prio
	if !call.isNews() {
		op, prio = operation.Resync, queue.Background
	}
	m.enqueue.Notice(key, operation.Of(op), prio)
}

// mended has the next failure of a mapper for the object logged again.
func (m *Mappings) mended(call *mapping) {
	if call.retried {
		m.reports.Mended(call.name())
	}
}
