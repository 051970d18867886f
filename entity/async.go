package entity

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

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

var errTooManyInFlight = errors.New("too many writes in flight")

// asyncWriter sends writes and takes their acknowledgements on one subscription: those of pipelined writes and, while
// the client's informers run, those of writes that a caller waits for. The publisher of nats.go would do, but its
// Cleanup can leave a goroutine behind, and it keeps a timer per message. A request of nats.go needs a context with its
// own timer, which costs more than the rest. The subscription is a goroutine. It ends with the informers and the last
// write in flight.
type asyncWriter struct {
	nc     *nats.Conn
	slots  chan struct{} // one element per write in flight
	timers sync.Pool     // of *time.Timer, for waits

	mu      sync.Mutex
	sub     *nats.Subscription // nil until the first write
	prefix  string             // of reply subjects
	count   uint64
	flights map[string]*flight // by the last token of the reply subject
	holders int                // running generations of the client's informers, which keep the subscription
	closed  bool
}

// flight is a write that was sent.
type flight struct {
	id      string
	subject string
	answer  chan *nats.Msg // gets at most one; closed if there will be none
	sent    time.Time
	// reconnects and before are the connection's count of reconnects, and its last error, when the write was sent.
	reconnects uint64
	before     error
}

func newAsyncWriter(nc *nats.Conn) *asyncWriter {
	a := &asyncWriter{nc: nc, slots: make(chan struct{}, asyncPending), flights: map[string]*flight{}}
	a.timers.New = func() any { return time.NewTimer(asyncLook) }
	return a
}

// close ends the pipelining. Writes in flight are settled by the callers that wait for them; later writes are sent only
// when their callers wait for them.
func (a *asyncWriter) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for id, f := range a.flights {
		delete(a.flights, id)
		<-a.slots
		close(f.answer)
	}
	a.unsubscribeLocked()
}

func (a *asyncWriter) unsubscribeLocked() {
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // fails on a closed connection only, which has no subscriptions
		a.sub = nil
	}
}

// hold keeps the subscription until release.
func (a *asyncWriter) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders++
}

func (a *asyncWriter) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders--
	a.restLocked()
}

func (a *asyncWriter) isHeld() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holders > 0
}

// restLocked ends the subscription when nothing needs it.
func (a *asyncWriter) restLocked() {
	if a.holders == 0 && len(a.flights) == 0 {
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
	if a.closed {
		return nil, "", nats.ErrConnectionClosed
	}
	if a.sub == nil {
		inbox := a.nc.NewRespInbox()
		if a.sub, err = a.nc.Subscribe(inbox+".*", a.answered); err != nil {
			return nil, "", err
		}
		if err := a.sub.SetPendingLimits(-1, -1); err != nil { // bounded by the slots
			return nil, "", err
		}
		a.prefix = inbox + "."
	}
	a.count++
	f = &flight{
		id: strconv.FormatUint(a.count, 36), subject: subject, answer: make(chan *nats.Msg, 1), sent: time.Now(),
		reconnects: a.nc.Stats().Reconnects, before: a.nc.LastError(),
	}
	a.flights[f.id] = f
	return f, a.prefix + f.id, nil
}

func (a *asyncWriter) answered(msg *nats.Msg) {
	id := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]
	a.mu.Lock()
	f, ok := a.flights[id]
	delete(a.flights, id)
	a.restLocked()
	a.mu.Unlock()
	if ok {
		<-a.slots
		f.answer <- msg
	}
}

// forget frees the slot of a flight, if it still has one.
func (a *asyncWriter) forget(f *flight) {
	a.mu.Lock()
	_, ok := a.flights[f.id]
	delete(a.flights, f.id)
	a.restLocked()
	a.mu.Unlock()
	if ok {
		<-a.slots
	}
}

// isLost reports whether the answer is overdue, was on its way to a connection that is gone, or cannot come because the
// user may not publish there.
func (a *asyncWriter) isLost(f *flight, patience time.Duration) bool {
	return time.Since(f.sent) > patience || a.nc.IsConnected() && a.nc.Stats().Reconnects != f.reconnects ||
		deniedSince(a.nc, f.before, f.subject) != nil
}

// wait returns the answer, or nil if none comes in time.
func (a *asyncWriter) wait(ctx context.Context, f *flight, patience time.Duration) *nats.Msg {
	select {
	case msg := <-f.answer:
		return msg
	default:
	}
	look := a.timers.Get().(*time.Timer)
	defer func() {
		look.Stop()
		a.timers.Put(look)
	}()
	for ctx.Err() == nil && !a.isLost(f, patience) { // may be lost already, if many were sent together
		look.Reset(asyncLook)
		select {
		case msg := <-f.answer:
			return msg
		case <-look.C:
		case <-ctx.Done():
		}
	}
	a.forget(f)
	select {
	case msg := <-f.answer: // it came at the last moment
		return msg
	default:
		return nil
	}
}

// putAsync sends w and returns a function that waits for the outcome that put would have. It blocks while too many
// writes are in flight.
func (b *bucket) putAsync(w write) (wait func(context.Context) (uint64, error)) {
	f, err := b.async.send(b.message(&w))
	if err != nil {
		return func(ctx context.Context) (uint64, error) { return b.settle(ctx, &w, false, b.nc.LastError()) }
	}
	return func(ctx context.Context) (uint64, error) { return b.landed(ctx, &w, f, asyncTimeout) }
}

// landed waits for the outcome of w, which was sent as f.
func (b *bucket) landed(ctx context.Context, w *write, f *flight, patience time.Duration) (uint64, error) {
	answer := b.async.wait(ctx, f, patience)
	if answer == nil {
		return b.settle(ctx, w, true, f.before)
	}
	revision, err := b.acknowledged(f.subject, answer)
	if err == nil {
		return revision, nil
	}
	api, refused := errors.AsType[*apiError](err)
	if refused && isCASCode(api.ErrorCode) {
		ctx, cancel := withTimeout(ctx)
		defer cancel()
		if revision, err, settled := b.outcome(ctx, w, false, err); settled {
			return revision, err
		}
	}
	if refused && !isCASCode(api.ErrorCode) && api.isFinal() {
		return 0, b.refused(w.key, api)
	}
	// After any other refusal, send again: the server refuses it again, or accepts it now.
	return b.settle(ctx, w, !refused && !neverSent(err), f.before)
}
