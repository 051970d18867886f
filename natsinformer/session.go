package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
)

const (
	// heartbeat is how often the server sends a heartbeat when it has no message; silence is how long we believe in a
	// consumer that sends nothing at all. Recovery is promised within two seconds, and needs part of that itself.
	heartbeat = 500 * time.Millisecond
	silence   = 1250 * time.Millisecond
	// countSilence is silence while the server counts with a filter, which may take seconds.
	countSilence = 10 * time.Second
	// pullBatch messages are asked for at once, and again when half of them have come, so that the server never waits
	// for us. The channel holds all that can be under way, else nats.go would drop messages.
	pullBatch   = 4096
	pullExpires = 60 * time.Second
	pullBytes   = 16 << 20
	inboxBuffer = 3 * pullBatch
	// probeBatch and probeExpires are for the pulls that ask whether the consumer is at the end.
	probeBatch   = 128
	probeExpires = 20 * time.Millisecond
	// listExpires and listBeat are for the pulls of a list, see end.go.
	listExpires  = 5 * time.Second
	listBeat     = 5 * time.Millisecond
	receiveBatch = 1024
	// resendAfter is when a request is sent again. One that met a server without a leader is never answered. For one
	// that takes long (a consumer on a stream of a million subjects) a second one has the same effect.
	resendAfter = 700 * time.Millisecond
	// resendLargeAfter is resendAfter for a request whose answer carries a value: where values are large, a second one
	// makes the server do much work again.
	resendLargeAfter = 1500 * time.Millisecond
)

var (
	errDisconnected = errors.New("the connection to the server was lost")
	errSilent       = errors.New("no message and no heartbeat came from the consumer")
	errConsumerGone = errors.New("the consumer is gone")
	errSkipped      = errors.New("a message of the consumer was lost on the way")
)

// session is one inbox on the connection, and at most one consumer that delivers into it. Messages, status messages
// and answers to requests all arrive in one channel. The goroutine that decodes and emits reads it, so a change passes
// through as few goroutines as possible. A session that failed is thrown away, with all that is still on its way to its
// inbox. One goroutine at a time uses a session.
type session struct {
	src    *source
	nc     *nats.Conn
	status <-chan nats.Status // changes of the connection
	inbox  string
	sub    *nats.Subscription
	in     chan *nats.Msg
	timer  *time.Timer

	denials     *denials.Denials
	woken       chan struct{}  // something was denied
	inboxDenied *denials.Watch // of the inbox
	pullDenied  *denials.Watch // of the requests for messages; nil while there is no consumer

	calls   []*call
	callSeq uint64

	patience int // how many times longer than usual to bear silence

	consumer string        // "" while there is none
	listing  bool          // the consumer's messages are pulled to find their end
	ended    bool          // the end was found behind the messages that receive returns
	doubted  bool          // but it may not be the stream's end
	made     time.Time     // not after the consumer
	pulls    int           // requests for messages sent
	asked    int           // messages they asked for
	replies  int           // to them: messages, heartbeats and other status messages
	batch    int           // messages that a pull asks for: pullBatch, unless the server allows fewer
	inactive time.Duration // after which the server looks whether a client still waits
	beats    int           // heartbeats of a list in a row, of one pull
	beatOf   string        // that pull
	urged    bool          // a list has asked whether this is the end, and no message came since
	consSeq  uint64        // of the message delivered last
	pending  uint64        // behind it, by the server's count
	credit   int           // messages the server may still send
	maxBytes int
	heard    time.Time   // when something came from the consumer
	beat     beat        // the last one
	atEnd    bool        // behind the messages that receive returns, the consumer said that there was nothing more
	scanned  uint64      // how far the consumer had looked
	probed   time.Time   // when probe last asked for that
	probes   int         // how often
	alive    bool        // something came from the consumer
	nudged   bool        // an answer or news of the end came: receive returns
	kept     time.Time   // when housekeep ran
	failed   error       // met while messages were taken; receive returns it after them
	incoming []*nats.Msg // taken
	returned []*nats.Msg // by the last call of receive
}

// newSession subscribes an inbox.
func newSession(src *source, status <-chan nats.Status) (*session, error) {
	nc := src.js.Conn()
	s := &session{
		src: src, nc: nc, status: status, inbox: nc.NewInbox(), in: make(chan *nats.Msg, inboxBuffer),
		timer: time.NewTimer(time.Hour), maxBytes: max(pullBytes, 2*int(nc.MaxPayload())), patience: 1,
		batch: pullBatch, inactive: inactiveThreshold,
		denials: denials.Of(nc), woken: make(chan struct{}, 1),
	}
	s.inboxDenied = s.denials.Subscribe(s.inbox+".*", s.wake)
	sub, err := nc.ChanSubscribe(s.inbox+".*", s.in)
	if err != nil {
		s.inboxDenied.Stop()
		return nil, fmt.Errorf("subscribing to %s.*: %w", s.inbox, err)
	}
	s.sub = sub
	return s, nil
}

func (s *session) close() {
	s.timer.Stop()
	_ = s.sub.Unsubscribe() // fails only on a closed connection, which has no subscriptions
	s.inboxDenied.Stop()
	if s.pullDenied != nil {
		s.pullDenied.Stop()
	}
	for _, c := range s.calls {
		c.denied.Stop()
	}
}

// receive waits for messages of the consumer and returns those that are there. It handles everything else that arrives.
// If there are none, it returns at the deadline, or after an answer or news of how far the consumer is. An error means
// that the session must be replaced. The slice is valid until the next call.
func (s *session) receive(ctx context.Context, deadline time.Time) ([]*nats.Msg, error) {
	s.nudged = false
	for {
		s.drain()
		now := time.Now()
		wake := now
		if len(s.incoming) == 0 || now.Sub(s.kept) > silence/4 {
			if s.failed != nil && len(s.incoming) == 0 {
				return nil, s.failed
			}
			var err error
			if wake, err = s.housekeep(now); err != nil {
				return nil, err
			}
		}
		if len(s.incoming) > 0 {
			clear(s.returned)
			s.incoming, s.returned = s.returned[:0], s.incoming
			if s.ended {
				return s.returned, nil
			}
			return s.returned, s.pull()
		}
		if deadline.Before(wake) {
			wake = deadline
		}
		if s.nudged || !now.Before(wake) {
			return nil, nil
		}
		if err := s.next(ctx, wake.Sub(now)); err != nil {
			return nil, err
		}
	}
}

// drain takes what has arrived, without waiting.
func (s *session) drain() {
	for s.failed == nil && !s.ended && !s.atEnd && len(s.incoming) < receiveBatch {
		select {
		case m := <-s.in:
			s.take(m)
		default:
			return
		}
	}
}

func (s *session) take(m *nats.Msg) {
	token, ours := strings.CutPrefix(m.Subject, s.inbox+".")
	switch {
	case !ours:
		s.credit--
		s.replies++
		s.beats, s.urged = 0, false
		s.alive, s.heard = true, time.Now()
		s.incoming = append(s.incoming, m)
	case token == pullToken, strings.HasPrefix(token, probeToken):
		s.replies++
		s.failed = s.takeStatus(m, token)
	case strings.HasPrefix(token, listToken):
		s.replies++
		s.heard = time.Now()
		if s.listing {
			s.failed = s.takeListStatus(m, token)
		}
	default:
		s.answered(token, m)
	}
}

const (
	pullToken  = "pull"
	probeToken = "probe" // and a number
	listToken  = "list"  // and when it was sent
)

// takeStatus handles a status message for a pull.
func (s *session) takeStatus(m *nats.Msg, pull string) error {
	s.heard = time.Now()
	switch m.Header.Get("Status") {
	case "100":
		s.alive = true
		all, err := s.readScanned(m)
		at := all && s.conclusive(pull)
		s.atEnd = s.atEnd || at
		s.nudged = s.nudged || at
		return err
	case "408", "409":
		asked := s.batch
		if pull != pullToken {
			asked = s.probeBatch()
		}
		return s.pullEnded(m, asked)
	}
	return statusError(m)
}

// batchRefused is how the server refuses a pull of more messages than it allows (jetstream.limits.max_request_batch, or
// max_batch of the consumer).
var batchRefused = regexp.MustCompile(`Exceeded MaxRequestBatch of ([0-9]+)`)

// pullEnded handles the end of a pull that got less than it asked for.
func (s *session) pullEnded(m *nats.Msg, asked int) error {
	if refused := batchRefused.FindStringSubmatch(m.Header.Get("Description")); refused != nil {
		limit, err := strconv.Atoi(refused[1])
		if err != nil || limit < 1 {
			return statusError(m)
		}
		s.batch, s.credit = min(s.batch, limit), max(0, s.credit-asked)
		return nil
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil { // Consumer Deleted, Leadership Change, Server Shutdown
		return statusError(m)
	}
	if left >= asked && strings.Contains(m.Header.Get("Description"), "Exceeds MaxBytes") {
		s.maxBytes *= 2 // not even one message fitted
	}
	s.credit = max(0, s.credit-left)
	return nil
}

func statusError(m *nats.Msg) error {
	return fmt.Errorf("%w: status %s %s", errConsumerGone, m.Header.Get("Status"), m.Header.Get("Description"))
}

// housekeep does what is due and returns when something will be due again.
func (s *session) housekeep(now time.Time) (wake time.Time, err error) {
	s.kept = now
	wake = now.Add(time.Minute)
	if s.consumer != "" {
		if err := s.refusal(s.pullDenied); err != nil {
			return wake, err
		}
		if err := s.pull(); err != nil {
			return wake, err
		}
		if quiet := now.Sub(s.heard); quiet >= s.silence() {
			// Messages that came while this goroutine was busy elsewhere wait in the channel.
			if len(s.in) == 0 {
				return wake, errSilent
			}
			s.heard = now
		}
		wake = s.heard.Add(s.silence())
		if urge, err := s.urge(now); err != nil {
			return wake, err
		} else if urge.Before(wake) {
			wake = urge
		}
	}
	if next := s.advanceCalls(now); next.Before(wake) {
		wake = next
	}
	return wake, nil
}

func (s *session) silence() time.Duration {
	for _, c := range s.calls {
		if c.counts {
			return countSilence
		}
	}
	return silence * time.Duration(s.patience)
}

// pull keeps the server supplied with requests for messages.
func (s *session) pull() error {
	if s.credit > s.batch/2 {
		return nil
	}
	token, request := pullToken, fmt.Sprintf(`{"batch":%d,"expires":%d,"idle_heartbeat":%d,"max_bytes":%d}`,
		s.batch, pullExpires, heartbeat, s.maxBytes)
	if s.listing {
		token, request = s.listPull(), s.listRequest(s.credit <= 0)
	}
	return s.sendPull(token, request, s.batch)
}

// sendPull sends a request for messages, whose replies come under the token.
func (s *session) sendPull(token, request string, messages int) error {
	if err := s.nc.PublishRequest(s.nextSubject(), s.inbox+"."+token, []byte(request)); err != nil {
		return fmt.Errorf("asking the consumer for messages: %w", err)
	}
	s.pulls++
	s.asked += messages
	s.credit += messages
	return nil
}

// cropped reports whether no request for messages got more than one reply. The server sends at least heartbeats.
func (s *session) cropped() bool { return s.replies > 0 && s.replies <= s.pulls }

// explain says how far the consumer has come that fell silent, or of which a message was lost, where that tells why.
// cropped says that its requests were answered once each, and that this is no chance.
func (s *session) explain(err error, cropped bool) error {
	came := s.consSeq + uint64(len(s.incoming))
	switch {
	case cropped:
		return fmt.Errorf("%w: asked for %d messages in %d requests, and %d came, in one reply to each: "+
			"if this account imports the JetStream API from another one, the export there needs "+
			"response_type: stream, or only the first reply to each request comes through", err, s.asked, s.pulls, came)
	case s.listing && s.replies > 0:
		return fmt.Errorf("%w: asked for %d messages, and %d came", err, s.asked, came)
	}
	return err
}

func (s *session) nextSubject() string { return s.src.api("CONSUMER.MSG.NEXT.%s.%s", s.consumer) }

// start makes the session follow a consumer that exists.
func (s *session) start(consumer string, listing bool) error {
	s.consumer, s.listing, s.heard, s.pending = consumer, listing, time.Now(), unknownPending
	s.pullDenied = s.denials.Publish(s.nextSubject(), s.wake)
	return s.pull()
}
