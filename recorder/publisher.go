package recorder

import (
	"container/list"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// publishWindow is how many events may be on the wire at once, so that a distant server is no bottleneck.
	publishWindow = 64
	// ackTimeout is when an event without an acknowledgement is sent again. That is harmless: it replaces itself.
	ackTimeout = 5 * time.Second
	// connectPoll is how often a lost connection is checked. Nothing is sent meanwhile, because it would fill the
	// reconnect buffer of a connection that belongs to the user.
	connectPoll = 100 * time.Millisecond
	// messageTooLarge is the server's error code for a message above the stream's limit.
	messageTooLarge = jetstream.ErrorCode(10054)
)

var errNoAck = fmt.Errorf("no acknowledgement within %v: %w", ackTimeout, nats.ErrTimeout)

// publisher sends events to the stream. All its state, except the queue, belongs to the goroutine in run.
type publisher struct {
	cfg        Config
	log        klog.Logger
	js         jetstream.JetStream
	acks       *acks
	counts     counters
	correlator *record.EventCorrelator
	queue      chan *corev1.Event
	flush      chan struct{} // closed when no more events come
	done       chan struct{} // closed when run is over
	lastErr    atomic.Pointer[error]

	pending    pendingEvents
	needStream bool
	ensuring   chan error // the stream is being looked up or created
	holding    bool       // nothing is sent until timer fires
	timer      *time.Timer
	failures   int // since the last success
	backoff    wait.Backoff
	flushing   bool
	reported   map[string]bool // problems in the log since the last success
	left       int             // not sent when run was over; read after done
}

func newPublisher(cfg Config) *publisher {
	p := &publisher{
		cfg:        cfg,
		log:        klog.LoggerWithValues(*cfg.Logger, "stream", cfg.Stream),
		js:         cfg.JetStream,
		acks:       newAcks(cfg.JetStream.Conn()),
		correlator: record.NewEventCorrelatorWithOptions(cfg.Correlator),
		queue:      make(chan *corev1.Event, cfg.QueueSize),
		flush:      make(chan struct{}),
		done:       make(chan struct{}),
		needStream: !cfg.BindOnly,
		timer:      time.NewTimer(time.Hour),
		reported:   map[string]bool{},
	}
	p.timer.Stop()
	p.pending.subject = map[string]*list.Element{}
	p.resetBackoff()
	return p
}

func (p *publisher) resetBackoff() {
	p.failures = 0
	p.backoff = wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 10 * time.Second,
	}
}

// run returns when ctx ends, or when flush is closed and everything is sent.
func (p *publisher) run(ctx context.Context) {
	defer close(p.done)
	defer p.stop()
	tick := time.NewTicker(ackTimeout / 5)
	defer tick.Stop()
	flush := p.flush
	for ctx.Err() == nil {
		p.send(ctx)
		if p.flushing && (p.idle() || p.js.Conn().IsClosed()) {
			return
		}
		select {
		case event := <-p.queue:
			p.correlate(event)
		case reply := <-p.acks.replies:
			p.landed(reply)
		case <-p.acks.lost:
			p.retryAll(p.acks.all(), nats.ErrDisconnected)
		case <-p.acks.denied:
			p.retryDenied()
		case now := <-tick.C:
			p.retryDenied() // in case no event tells
			p.retryAll(p.acks.overdue(now), errNoAck)
		case err := <-p.ensuring:
			p.ensured(err)
		case <-p.timer.C:
			p.holding = false
		case <-flush:
			flush = nil
			p.flushing, p.holding = true, false
		case <-ctx.Done():
		}
	}
}

func (p *publisher) idle() bool {
	return len(p.queue) == 0 && p.pending.len() == 0 && len(p.acks.flights) == 0
}

// stop leaves nothing behind: no timer, no subscription, and no event that is not counted.
func (p *publisher) stop() {
	p.timer.Stop()
	if p.ensuring != nil {
		<-p.ensuring // its context is over too, or it is about to be answered
	}
	p.acks.stop()
	p.left = len(p.queue) + p.pending.len() + len(p.acks.flights)
	p.counts.dropped.Add(uint64(p.left))
}

// close waits until run has sent everything, and aborts it when ctx ends. The error counts the events that are left.
func (p *publisher) close(ctx context.Context, abort context.CancelFunc) error {
	close(p.flush)
	select {
	case <-p.done:
	case <-ctx.Done():
		abort()
		<-p.done
	}
	if p.left > 0 {
		return fmt.Errorf("recorder: closed with %d events about NATS entities not sent to %s (last problem: %w)",
			p.left, p.cfg.Stream, p.lastProblem(ctx))
	}
	return nil
}

func (p *publisher) lastProblem(ctx context.Context) error {
	if err := p.lastErr.Load(); err != nil {
		return *err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return nats.ErrConnectionClosed
}

// correlate counts repeats, combines similar events, throttles, and adds the rest to the pending events.
func (p *publisher) correlate(event *corev1.Event) {
	result, err := p.correlator.EventCorrelate(event)
	if err != nil {
		// Only the patch for an API server failed, which is not used here.
		p.log.V(4).Info("Correlating an event", "err", err)
	}
	if result.Skip {
		p.counts.filtered.Add(1)
		return
	}
	if p.pending.put(subjectOf(p.cfg.SubjectPrefix, result.Event), result.Event) {
		p.counts.merged.Add(1)
	}
	if p.pending.len() > p.cfg.QueueSize {
		p.pending.takeOldest()
		p.counts.dropped.Add(1)
	}
}
