package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Subject is a source of the messages that come on a subject of NATS. A message that does not arrive is not sent again:
// where some may have been lost, all primaries are due. It has synced when the server has taken the subscription, or
// has refused it: then all primaries are due once it takes it.
type Subject struct {
	listening
	SubjectConfig
	decided chan struct{} // closed when the server has taken or refused it first
	health  health.Errors
	events  *Events
	number  uint64 // of the messages; one goroutine counts
	missed  bool   // messages may have been lost, and all primaries are not due yet for that
}

// SubjectConfig configures a Subject.
type SubjectConfig struct {
	Conn    *nats.Conn
	Subject string
	Keys    func(ctx context.Context, m *nats.Msg) ([]string, error) // the primaries that a message concerns
	Changed func(ctx context.Context, s Source)                      // Err has another answer
	Lost    func()                                                   // messages may have been lost
	Mine    bool                                                     // Conn is that of the primaries
}

// message is a message as mappers take it.
type message struct {
	metav1.ObjectMeta
	*nats.Msg
}

// NewSubject makes a source of a subject.
func NewSubject(config SubjectConfig, mappings *Mappings) *Subject {
	s := &Subject{SubjectConfig: config, decided: make(chan struct{})}
	s.events = &Events{Source: s, Operation: operation.Tertiary, Mappings: mappings,
		Keys: func(ctx context.Context, obj metav1.Object) ([]string, error) { return s.Keys(ctx, obj.(*message).Msg) }}
	return s
}

// String is the name of the source in logs, errors and Stats.
func (s *Subject) String() string { return "WatchesSubject " + s.Subject }

// Err implements Source.
func (s *Subject) Err() error { return s.health.Err() }

// Synced implements Source.
func (s *Subject) Synced() []cache.DoneChecker { return []cache.DoneChecker{s} }

// Name implements cache.DoneChecker.
func (s *Subject) Name() string { return s.String() }

// Done implements cache.DoneChecker.
func (s *Subject) Done() <-chan struct{} { return s.decided }

// Rights are to hear the subject, if that is the controller's user who hears it.
func (s *Subject) Rights(...entity.PermissionOption) (entity.PermissionSet, error) {
	if !s.Mine {
		return entity.PermissionSet{}, nil
	}
	return entity.PermissionSet{Subscribe: []string{s.Subject}}, nil
}

var _ NeedsRights = (*Subject)(nil)

const (
	// subjectTick is how often a subscription is looked at.
	subjectTick = time.Second
	// subjectAnswer is how long the server is given to refuse it.
	subjectAnswer = 10 * time.Second
)

// Start implements Source. A subscription that the server refuses is tried again.
func (s *Subject) Start(ctx context.Context) error {
	s.listen(ctx, func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := s.follow(ctx); err != nil && ctx.Err() == nil {
				s.tell(ctx, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(subjectTick):
			}
		}
	})
	return nil
}

// tell says what is wrong, nil for nothing.
func (s *Subject) tell(ctx context.Context, err error) {
	s.missed = s.missed || err != nil
	s.health.Set("", err)
	s.Changed(ctx, s)
	select {
	case <-s.decided:
	default:
		close(s.decided)
	}
}

// works says that nothing is wrong, and makes up for what was lost.
func (s *Subject) works(ctx context.Context) {
	s.tell(ctx, nil)
	if s.missed {
		s.missed = false
		s.Lost()
	}
}

// follow listens until something is wrong with the subscription.
func (s *Subject) follow(ctx context.Context) error {
	connection := s.Conn.Stats().Reconnects // before anything of it may be lost
	denied := denials.Of(s.Conn).Subscribe(s.Subject, nil)
	defer denied.Stop()
	sub, err := s.Conn.SubscribeSync(s.Subject)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.granted(ctx, denied); err != nil {
		return err
	}
	s.works(ctx)
	for {
		slice, cancel := context.WithTimeout(ctx, subjectTick)
		m, err := sub.NextMsgWithContext(slice)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case m != nil:
			s.number++
			s.events.Created(ctx, &message{metav1.ObjectMeta{Name: fmt.Sprint(s.Subject, " ", s.number)}, m}, false)
		case errors.Is(err, nats.ErrSlowConsumer):
			s.tell(ctx, errTooFast)
			continue
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		if refused := s.refused(denied); refused != nil {
			return refused
		}
		if !s.Conn.IsConnected() || s.Conn.Stats().Reconnects != connection {
			return errAway
		}
		if waiting, _, _ := sub.Pending(); s.missed && waiting == 0 {
			s.works(ctx)
		}
	}
}

var (
	errAway = errors.New("the connection to NATS is away, or was for a moment; " +
		"all primaries are due when it is back")
	errTooFast = errors.New("messages come faster than they are mapped, and some are dropped; " +
		"all primaries are due when no message waits")
)

// granted asks whether the server takes the subscription.
func (s *Subject) granted(ctx context.Context, denied *denials.Watch) error {
	ctx, cancel := context.WithTimeout(ctx, subjectAnswer)
	defer cancel()
	if err := s.Conn.FlushWithContext(ctx); err != nil {
		return err
	}
	return s.refused(denied)
}

func (s *Subject) refused(denied *denials.Watch) error {
	if denied.Err() == nil {
		return nil
	}
	return fmt.Errorf("the server refuses to subscribe to %s: grant the user the permission to subscribe to it: %w",
		s.Subject, nats.ErrPermissionViolation)
}

// IsSubject reports whether a subscription may be to that text.
func IsSubject(text string) bool {
	tokens := strings.Split(text, ".")
	for i, token := range tokens {
		if token == "" || strings.ContainsAny(token, " \t\r\n") || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}
