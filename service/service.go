package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// Service is the controllers of a process in the services API. [New] makes one, [Service.Controller] adds a controller,
// and [Service.Run] runs it, once. All methods may be called concurrently.
type Service struct {
	cfg     Config
	reading limits
	acting  limits
	dropped rate.Sometimes // how often a request is logged that wants its answer elsewhere
	started atomic.Bool
	ended   atomic.Bool
	changed chan struct{} // has a value while Run is to look at served

	mu     sync.Mutex
	served []*served
}

// New makes a service without a controller. It sends nothing. The error says what is wrong with cfg, and which options
// Config.Conn lacks if it would not come back by itself from every outage.
func New(cfg Config) (*Service, error) {
	s := For(cfg)
	if err := s.Connect(cfg.Conn); err != nil {
		return nil, err
	}
	return s, nil
}

// For makes a service whose connection is to come, for Config.Service of a manager. Config.Conn is not looked at.
func For(cfg Config) *Service {
	cfg = cfg.withDefaults()
	return &Service{
		cfg: cfg, reading: newLimits(cfg.ReadRate), acting: newLimits(cfg.ActRate),
		dropped: rate.Sometimes{Interval: time.Minute}, changed: make(chan struct{}, 1),
	}
}

// Connect gives a service of For its connection, before its first controller. The error is that of New.
func (s *Service) Connect(conn *nats.Conn) error {
	s.cfg.Conn = conn
	if err := errors.Join(s.cfg.validateConn(), s.cfg.validate()); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return nil
}

// Permissions are those of Config: what the user of the connection needs.
func (s *Service) Permissions() (entity.PermissionSet, error) { return s.cfg.Permissions() }

// Name is that of the service, for a manager.
func (s *Service) Name() string { return "service " + s.cfg.Name }

// Controller is the option with which controller.New, or WithOptions of the Kumori API, makes a controller reachable.
// Each controller needs a call of its own. While Service.Run runs it is served from its New on, or moments later. New
// fails if another controller of this service has the same name, if the controller's client uses the connection of the
// service, or after Service.Run. See also Remove.
//
// [controller.Controller.Permissions] then includes the right to write documents, for suspend and resume.
func (s *Service) Controller() controller.Option {
	c := &served{service: s, resyncs: rate.Sometimes{Interval: time.Minute}}
	return func(o *engine.Options) error {
		if s.ended.Load() {
			return errors.New("service.Controller: the service has ended: it answers for nothing any more")
		}
		o.Beside = append(o.Beside, c)
		return nil
	}
}

// hasAnother reports whether a controller other than c has the name.
func (s *Service) hasAnother(c *served, name string) bool {
	return slices.ContainsFunc(s.controllers(), func(other *served) bool { return other != c && other.name() == name })
}

// add adds a controller, unless it is there already and was only made anew.
func (s *Service) add(c *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.served, c) {
		s.served = append(s.served, c)
		s.tellChanged()
	}
}

// Remove has the service answer for a controller no more, from moments later on; another one may have its name at once.
// It is for controllers whose Run has returned, and does nothing for what the service does not know. A manager calls it
// when it removes a controller.
//
// The requests for it that wait are answered. The library of services takes the endpoints of one away with all others
// only: so the service is made anew, with another id and with counts from zero. A request of that moment may find no
// responder; ask again.
func (s *Service) Remove(controller any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.served)
	s.served = slices.DeleteFunc(slices.Clone(s.served), func(c *served) bool { return c.of == controller })
	if len(s.served) < before {
		s.tellChanged()
	}
}

func (s *Service) tellChanged() {
	select {
	case s.changed <- struct{}{}:
	default: // Run will look
	}
}

func (s *Service) controllers() []*served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.served)
}

// lookAgain is how often it is looked whether the server is there, while there is something to look at.
const lookAgain = 100 * time.Millisecond

// stopPatience is how long requests may take at the end of Run.
const stopPatience = 10 * time.Second

// Run answers requests until ctx ends. Those under way are answered, and acts that write are refused if they come
// then; the connection is drained and closed, and Run returns nil. While the server is away Run waits, and goes on when
// it is back. It returns an error if the connection is closed before ctx ends, or if the service cannot be made.
func (s *Service) Run(ctx context.Context) (err error) {
	if s.started.Swap(true) {
		return errors.New("service: Run was called before: a service runs once")
	}
	logger := printable.Logger(klog.FromContext(ctx)).WithValues("service", s.cfg.Name)
	ctx = klog.NewContext(ctx, logger)
	nc := s.cfg.Conn
	closed := nc.StatusChanged(nats.CLOSED)
	defer nc.RemoveStatusListener(closed)
	defer func() { err = errors.Join(err, s.drain(closed)) }()
	defer s.ended.Store(true)
	registered, err := s.register(ctx)
	if err != nil {
		return fmt.Errorf("service %q: %w", s.cfg.Name, err)
	}
	for left := (looks{rights: true, subscriptions: true}); ; {
		left = s.look(ctx, left)
		var again <-chan time.Time
		if left.pending() {
			again = time.After(lookAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-s.changed:
			if registered, err = s.update(ctx, registered); err != nil {
				return fmt.Errorf("service %q: %w", s.cfg.Name, err)
			}
			left.subscriptions = true
		case <-closed:
			return fmt.Errorf("service %q: its connection was closed: %w", s.cfg.Name,
				errors.Join(nats.ErrConnectionClosed, nc.LastError()))
		}
	}
}

// drain ends the connection when what was asked is answered.
func (s *Service) drain(closed <-chan nats.Status) error {
	nc := s.cfg.Conn
	defer nc.Close()
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	tooLong := func() error {
		return fmt.Errorf("service %q: requests were not answered within %v of the stop", s.cfg.Name, stopPatience)
	}
	for _, of := range []chan struct{}{
		s.acting.whole.turns, s.acting.confined.turns, s.acting.whole.standby, s.acting.confined.standby,
		s.reading.whole.standby, s.reading.confined.standby,
	} {
		for range cap(of) { // when it is full the last request has ended, and no other one begins
			select {
			case of <- struct{}{}:
			case <-patience.C:
				return tooLong()
			}
		}
	}
	if !nc.IsConnected() {
		return nil // there is no subject to reply to
	}
	if err := nc.Drain(); err != nil {
		return fmt.Errorf("service %q: drain its connection: %w", s.cfg.Name, err)
	}
	for !nc.IsClosed() {
		select {
		case <-closed:
		case <-patience.C:
			return tooLong()
		}
	}
	return nil
}
