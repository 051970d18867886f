package natsinformer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// permissionCheck is how often we look whether the server refused a request that is not answered yet, in case the
// connection's error handler is not ours any more.
const permissionCheck = 10 * time.Millisecond

// leaderPause is when a request is sent again after an answer that came without a leader.
const leaderPause = 100 * time.Millisecond

// call is a request under way. It is safe to send any request of this package twice. Those that cost the server much
// are sent again only after an answer that came without a leader.
type call struct {
	token    string
	subject  string
	payload  []byte
	denied   *denials.Watch // of the subject
	sent     int            // how often
	once     bool           // it is not sent again while no answer comes
	large    bool           // its answer carries a value
	counts   bool           // until the answer, the server does nothing else with the stream
	timeout  time.Duration
	resend   time.Time // when it is sent again, zero if never
	deadline time.Time
	done     func(answer []byte, err error)

	leaderless bool // the last answer came without a leader; the request is sent again soon
}

// ask sends a request, and again while no answer comes. receive and await pass the answer to done.
func (s *session) ask(subject string, payload []byte, timeout time.Duration, done func([]byte, error)) {
	s.request(&call{subject: subject, payload: payload, timeout: timeout, done: done})
}

func (s *session) request(c *call) {
	s.callSeq++
	c.token, c.denied = strconv.FormatUint(s.callSeq, 10), s.denials.Publish(c.subject, s.wake)
	c.deadline = time.Now().Add(c.timeout)
	s.calls = append(s.calls, c)
	s.send(c)
}

func (s *session) send(c *call) {
	c.sent++
	c.leaderless, c.resend = false, c.nextResend(time.Now())
	if err := s.nc.PublishRequest(c.subject, s.inbox+"."+c.token, c.payload); err != nil {
		s.settle(c, nil, fmt.Errorf("sending to %s: %w", c.subject, err))
	}
}

// settle ends a call and passes the result to done, once.
func (s *session) settle(c *call, answer []byte, err error) {
	if i := slices.Index(s.calls, c); i >= 0 {
		s.calls = slices.Delete(s.calls, i, i+1)
		c.denied.Stop()
		s.nudged = true
		if c.counts {
			s.heard = time.Now() // meanwhile the consumer could send nothing
		}
		c.done(answer, err)
	}
}

func (s *session) answered(token string, m *nats.Msg) {
	for _, c := range s.calls {
		if c.token != token {
			continue
		}
		if m.Header.Get("Status") == "503" {
			s.settle(c, nil, fmt.Errorf("nobody answers %s: enable JetStream on the server and for the account, "+
				"or check the JetStream domain: %w", s.src.grant(c.subject), nats.ErrNoResponders))
			return
		}
		if leaderless(m.Data) {
			c.leaderless, c.resend = true, time.Now().Add(leaderPause) // as if it had not been answered
			return
		}
		s.works(c.subject, time.Now())
		s.settle(c, m.Data, nil)
		return
	}
}

// works starts the times of all calls of a subject again, because the server has just answered one. It answers one
// after the other, which takes seconds where values are large, and each request that is sent again meanwhile makes it
// slower.
func (s *session) works(subject string, now time.Time) {
	for _, c := range s.calls {
		if c.subject != subject {
			continue
		}
		c.deadline = now.Add(c.timeout)
		if !c.leaderless {
			c.resend = c.nextResend(now)
		}
	}
}

// isUnderWay reports whether a request to the subject waits for its answer.
func (s *session) isUnderWay(subject string) bool {
	return slices.ContainsFunc(s.calls, func(c *call) bool { return c.subject == subject })
}

// nextResend returns when the call is sent again if the server answers nothing until then, zero if never.
func (c *call) nextResend(now time.Time) time.Time {
	switch {
	case c.once:
		return time.Time{}
	case c.large:
		return now.Add(resendLargeAfter)
	}
	return now.Add(resendAfter)
}

// advanceCalls sends unanswered calls again, gives up those that are overdue or were refused, and returns when to look
// again.
func (s *session) advanceCalls(now time.Time) (next time.Time) {
	next = now.Add(time.Minute)
	for _, c := range slices.Clone(s.calls) {
		if err := s.refusal(c.denied); err != nil {
			s.settle(c, nil, err)
			continue
		}
		if !now.Before(c.deadline) {
			s.settle(c, nil, fmt.Errorf("no answer from %s: either the stream has no leader now, "+
				"or the permission to publish to it is missing: %w", s.src.grant(c.subject), nats.ErrTimeout))
			continue
		}
		if !c.resend.IsZero() && !now.Before(c.resend) {
			s.send(c)
		}
		next = now.Add(permissionCheck)
	}
	return next
}

// refusal returns an error if the server refuses a publish, or the subscription of the inbox.
func (s *session) refusal(publish *denials.Watch) error {
	if err := s.inboxDenied.Err(); err != nil {
		return err
	}
	if publish == nil || publish.Err() == nil {
		return nil
	}
	return fmt.Errorf("the server refuses to publish to %s: grant the user the permission to publish to it: %w",
		s.src.grant(publish.Subject()), nats.ErrPermissionViolation)
}

// wake makes a wait look again. It is called when the server denies something.
func (s *session) wake(error) {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// await is receive for a session whose consumer does not deliver now. It returns when the flag is set.
func (s *session) await(ctx context.Context, answered *bool) error {
	for !*answered {
		now := time.Now()
		wake := s.advanceCalls(now)
		if *answered {
			break
		}
		if err := s.next(ctx, wake.Sub(now)); err != nil {
			return err
		}
	}
	return nil
}

// next takes what arrives first, and returns after d without anything.
func (s *session) next(ctx context.Context, d time.Duration) error {
	s.timer.Reset(d)
	select {
	case m := <-s.in:
		s.take(m)
	case <-s.status:
		return errDisconnected
	case <-ctx.Done():
		return ctx.Err()
	case <-s.woken:
	case <-s.src.ordered:
		s.nudged = true
	case <-s.timer.C:
	}
	return nil
}

// idle waits until each request that is under way has its answer. Only for a session whose consumer does not deliver
// now.
func (s *session) idle(ctx context.Context) error {
	for len(s.calls) > 0 {
		c, answered := s.calls[0], false
		done := c.done
		c.done = func(answer []byte, err error) {
			answered = true
			done(answer, err)
		}
		if err := s.await(ctx, &answered); err != nil {
			return err
		}
	}
	return nil
}

// rest waits, and meanwhile handles what arrives.
func (s *session) rest(ctx context.Context, d time.Duration) error {
	over := false
	for wake := time.Now().Add(d); !over; over = !time.Now().Before(wake) {
		if err := s.next(ctx, time.Until(wake)); err != nil {
			return err
		}
	}
	return nil
}

// apiError is an error in an answer of the JetStream API.
type apiError struct {
	Code        int                 `json:"code"`
	ErrCode     jetstream.ErrorCode `json:"err_code"`
	Description string              `json:"description"`
}

func (e *apiError) is(code jetstream.ErrorCode) bool { return e != nil && e.ErrCode == code }

// decodeAnswer reads an answer of the JetStream API. Its errors say what to do where a user can do something.
func (src *source) decodeAnswer(subject string, answer []byte, into any, failure func() *apiError) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", subject, err)
	}
	e := failure()
	if e == nil {
		return nil
	}
	said := &jetstream.APIError{Code: e.Code, ErrorCode: e.ErrCode, Description: e.Description}
	switch e.ErrCode {
	case jetstream.JSErrCodeStreamNotFound:
		return fmt.Errorf("the bucket does not exist: create it, or its stream %s: %w: %w",
			src.cfg.stream(), jetstream.ErrBucketNotFound, said)
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return fmt.Errorf("JetStream is not enabled: enable it on the server and for the account: %w", said)
	}
	if e.ErrCode == jetstream.JSErrCodeMaximumConsumersLimit {
		return fmt.Errorf("%s: %w: raise max_consumers of the stream %s, or of its account: "+
			"it takes one consumer for each informer", src.grant(subject), said, src.cfg.stream())
	}
	return fmt.Errorf("%s: %w", src.grant(subject), said)
}

// grant returns the subject a user must be allowed to publish to for a request. A wildcard stands for the consumer's
// name, which is another one each time.
func (src *source) grant(subject string) string {
	stream := src.cfg.stream()
	i := strings.Index(subject, "."+stream+".")
	switch {
	case i < 0:
		return subject
	case strings.Contains(subject, ".CONSUMER.CREATE."):
		return subject[:i] + "." + stream + ".>"
	default:
		return subject[:i] + "." + stream + ".*"
	}
}
