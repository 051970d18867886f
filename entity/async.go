package entity

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
)

const (
	// asyncPending bounds the writes in flight. Beyond a few thousand the server's queue grows and nothing gets faster.
	asyncPending = 4096
	// asyncTimeout is how long a write waits for its acknowledgement before that counts as lost.
	asyncTimeout = 5 * time.Second
	// asyncLook is how often a wait checks whether the connection was lost, and the acknowledgement with it.
	asyncLook = 250 * time.Millisecond
)

var (
	errTooManyInFlight = errors.New("too many writes in flight")
	errDeaf            = errors.New("the inbox for acknowledgements was denied")
)

// asyncWriter sends writes and takes their acknowledgements on one subscription: those of pipelined writes and, while
// the client's informers run, those of writes that a caller waits for. The publisher of nats.go would do, but its
// Cleanup can leave a goroutine behind, and it keeps a timer per message. A request of nats.go needs a context with its
// own timer, which costs more than the rest. The subscription is a goroutine. It ends with the informers and the last
// write in flight.
type asyncWriter struct {
	nc      *nats.Conn
	denials *denials.Denials
	slots   chan struct{} // one element per write in flight
	timers  sync.Pool     // of *time.Timer, for waits

	mu      sync.Mutex
	sub     *nats.Subscription // nil until the first write
	inbox   *denials.Watch     // of sub
	deaf    bool               // the last subscription was denied, and no request was answered since
	prefix  string             // of reply subjects
	count   uint64
	flights map[string]*flight // by the last token of the reply subject
	closed  bool

	// holders are the running generations of the client's informers, which keep the subscription. A write holds mu
	// while it waits for a connection that dials. The start of a cache does not.
	holders atomic.Int32
}

func newAsyncWriter(nc *nats.Conn) *asyncWriter {
	a := &asyncWriter{
		nc: nc, denials: denials.Of(nc), slots: make(chan struct{}, asyncPending), flights: map[string]*flight{},
	}
	a.timers.New = func() any { return time.NewTimer(asyncLook) }
	return a
}

// close ends the pipelining. Writes in flight are settled by the callers that wait for them; later writes are sent only
// when their callers wait for them.
func (a *asyncWriter) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.endFlightsLocked()
	a.unsubscribeLocked()
}

func (a *asyncWriter) unsubscribeLocked() {
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // fails on a closed connection only, which has no subscriptions
		a.inbox.Stop()
		a.sub, a.inbox = nil, nil
	}
}

// deafened ends the subscription after the server has denied it. Writes in flight may have been applied. Until a
// request is answered again, writes are sent with an inbox that is known to be granted.
func (a *asyncWriter) deafened(inbox string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sub == nil || a.prefix != inbox+"." {
		return
	}
	a.deaf = true
	a.endFlightsLocked()
	a.unsubscribeLocked()
}

// hears notes that a request was answered.
func (a *asyncWriter) hears() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaf = false
}

// hold keeps the subscription until release.
func (a *asyncWriter) hold() { a.holders.Add(1) }

func (a *asyncWriter) release() {
	a.holders.Add(-1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restLocked()
}

func (a *asyncWriter) isHeld() bool { return a.holders.Load() > 0 }

// restLocked ends the subscription when nothing needs it.
func (a *asyncWriter) restLocked() {
	if a.holders.Load() == 0 && len(a.flights) == 0 {
		a.unsubscribeLocked()
	}
}

// send publishes a message. It blocks while too many writes are in flight.
func (a *asyncWriter) send(msg *nats.Msg) (*flight, error) {
	if !a.tryTakeSlot() {
		if err := a.takeSlot(); err != nil {
			return nil, err
		}
	}
	return a.sendInSlot(msg)
}

// sendAtOnce is send, but fails with errTooManyInFlight where send would block.
func (a *asyncWriter) sendAtOnce(msg *nats.Msg) (*flight, error) {
	if !a.tryTakeSlot() {
		return nil, errTooManyInFlight
	}
	return a.sendInSlot(msg)
}

func (a *asyncWriter) sendInSlot(msg *nats.Msg) (*flight, error) {
	f, reply, err := a.register(msg.Subject)
	if err != nil {
		<-a.slots
		return nil, err
	}
	msg.Reply = reply
	if err := a.nc.PublishMsg(msg); err != nil {
		a.forget(f)
		return nil, err
	}
	return f, nil
}

func (a *asyncWriter) tryTakeSlot() bool {
	select {
	case a.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// takeSlot blocks while too many writes are in flight. It frees the slots of writes whose acknowledgement is overdue,
// so that a caller who sends much before waiting for any is not blocked for ever.
func (a *asyncWriter) takeSlot() error {
	ticker := time.NewTicker(asyncTimeout / 5)
	defer ticker.Stop()
	for range 10 {
		select {
		case a.slots <- struct{}{}:
			return nil
		case <-ticker.C:
			a.dropOverdue()
		}
	}
	return errTooManyInFlight
}

func (a *asyncWriter) dropOverdue() {
	a.mu.Lock()
	var overdue []*flight
	for _, f := range a.flights {
		if time.Since(f.sent) > asyncTimeout {
			overdue = append(overdue, f)
		}
	}
	a.mu.Unlock()
	for _, f := range overdue {
		a.forget(f)
	}
}

func (a *asyncWriter) register(subject string) (f *flight, reply string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, "", nats.ErrConnectionClosed
	case a.deaf:
		return nil, "", errDeaf
	}
	if err := a.subscribeLocked(); err != nil {
		return nil, "", err
	}
	a.count++
	f = &flight{
		id: strconv.FormatUint(a.count, 36), subject: subject, answer: make(chan *nats.Msg, 1), sent: time.Now(),
		reconnects: a.nc.Stats().Reconnects,
	}
	f.denied = a.denials.Publish(subject, func(error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.endFlightLocked(f)
		a.restLocked()
	})
	a.flights[f.id] = f
	return f, a.prefix + f.id, nil
}

func (a *asyncWriter) subscribeLocked() (err error) {
	if a.sub != nil {
		return nil
	}
	inbox := a.nc.NewRespInbox()
	watch := a.denials.Subscribe(inbox+".*", func(error) { a.deafened(inbox) })
	sub, err := a.nc.Subscribe(inbox+".*", a.answered)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // bounded by the slots
	}
	if err != nil {
		watch.Stop()
		return err
	}
	a.sub, a.inbox, a.prefix = sub, watch, inbox+"."
	return nil
}
