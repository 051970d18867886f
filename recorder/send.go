package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// send puts as many events on the wire as are allowed now. After a failure that is one, to see whether it works again.
func (p *publisher) send(ctx context.Context) {
	if p.holding || p.ensuring != nil || (!p.needStream && p.pending.len() == 0) {
		return
	}
	if !p.js.Conn().IsConnected() {
		p.hold(connectPoll)
		return
	}
	if p.needStream {
		p.ensure(ctx)
		return
	}
	window := publishWindow
	if p.failures > 0 {
		window = 1
	}
	for p.pending.len() > 0 && len(p.acks.flights) < window && !p.holding {
		p.sendOne(p.pending.takeOldest())
	}
}

func (p *publisher) sendOne(item *pendingEvent) {
	event := *item.event
	event.Kind, event.APIVersion = "Event", "v1"
	data, err := json.Marshal(&event)
	if err != nil {
		p.failed(item, err)
		return
	}
	if err := p.acks.send(item, data); err != nil {
		p.retry(item, err)
	}
}

func (p *publisher) landed(reply *nats.Msg) {
	item, stream, err := p.acks.landed(reply)
	switch {
	case item == nil:
		return // it was sent again meanwhile
	case err != nil:
		p.retry(item, err)
		return
	}
	p.counts.published.Add(1)
	p.resetBackoff()
	if stream != p.cfg.Stream {
		p.report("stream", fmt.Errorf("events on %s are stored by the stream %s instead of %s: "+
			"configure that as Stream, or another SubjectPrefix", item.subject, stream, p.cfg.Stream))
		return
	}
	clear(p.reported)
}

func (p *publisher) retryAll(items []*pendingEvent, err error) {
	for _, item := range items {
		p.retry(item, err)
	}
}

// retryDenied keeps the events that the server denied for later.
func (p *publisher) retryDenied() {
	items, err := p.acks.takeDenied()
	p.retryAll(items, err)
}

// retry keeps an event for later if that can help.
func (p *publisher) retry(item *pendingEvent, err error) {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject),
		errors.As(err, &api) && api.ErrorCode == messageTooLarge:
		p.failed(item, err)
		return
	case time.Since(item.since) > p.cfg.MaxAge:
		p.failed(item, err) // the stream would have discarded it by now
		return
	case p.pending.putBack(item):
		p.counts.merged.Add(1)
	}
	p.failures++
	if !p.holding {
		p.hold(p.backoff.Step())
	}
	switch {
	case errors.Is(err, nats.ErrDisconnected):
		p.log.V(4).Info("Connection lost, events are kept until it is back", "pending", p.pending.len())
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		p.needStream = !p.cfg.BindOnly
		if p.needStream && !p.reported["stream"] {
			return // deleted; it is created again, or that is reported
		}
		p.report("missing", fmt.Errorf("no stream takes events on %s.>: "+
			"is there a stream %s with these subjects, and JetStream for this account? %w",
			p.cfg.SubjectPrefix, p.cfg.Stream, err))
	default:
		err = explain(err, p.cfg.SubjectPrefix+".>")
		p.report("publish", fmt.Errorf("publishing an event on %s: %w", item.subject, err))
	}
}

func (p *publisher) failed(item *pendingEvent, err error) {
	p.counts.failed.Add(1)
	p.report("failed", fmt.Errorf("giving up on the event %s about %s %s/%s: %w", item.event.Reason,
		item.event.InvolvedObject.Kind, item.event.InvolvedObject.Namespace, item.event.InvolvedObject.Name, err))
}

func (p *publisher) hold(d time.Duration) {
	p.holding = true
	p.timer.Reset(d)
}

// ensure checks the stream in a goroutine of its own, while the loop goes on taking events from the queue.
func (p *publisher) ensure(ctx context.Context) {
	answer := make(chan error, 1)
	p.ensuring = answer
	go func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// A request that was on a lost connection is never answered.
		lost := p.js.Conn().StatusChanged(nats.RECONNECTING, nats.CLOSED)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			<-lost
			cancel()
		}()
		err := ensureStream(ctx, p.js, p.cfg)
		p.js.Conn().RemoveStatusListener(lost) // closes it
		<-stopped
		answer <- err
	}()
}

// ensured takes the result of ensure. Only a lost connection delays publishing: a user who may not look at the stream
// may still publish, and if there is no stream the next acknowledgement says so.
func (p *publisher) ensured(err error) {
	p.ensuring = nil
	lost := errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrDisconnected) || !p.js.Conn().IsConnected()
	if err != nil && lost {
		p.hold(connectPoll)
		return
	}
	p.needStream = false
	if err != nil {
		p.report("stream", err)
	}
}

// report logs a problem once, until an event has been published again.
func (p *publisher) report(problem string, err error) {
	err = printable.Error(err)
	p.lastErr.Store(&err)
	if p.reported[problem] {
		p.log.V(4).Info("Events are still not recorded as they should be", "err", err)
		return
	}
	p.reported[problem] = true
	p.log.Error(err, "Events about NATS entities are not recorded as they should be")
}
