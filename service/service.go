package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
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
		dropped: rate.Sometimes{Interval: time.Minute},
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
// Each controller needs a call of its own, before Service.Run. New fails if another controller of this service has the
// same name, or if the controller's client uses the connection of the service.
//
// [controller.Controller.Permissions] then includes the right to write documents, for suspend and resume.
func (s *Service) Controller() controller.Option {
	c := &served{service: s, resyncs: rate.Sometimes{Interval: time.Minute}}
	return func(o *engine.Options) error {
		if s.started.Load() {
			return errors.New("service.Controller: the service runs already: make all controllers before")
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
	if err := s.register(ctx); err != nil {
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
		case <-closed:
			return fmt.Errorf("service %q: its connection was closed: %w", s.cfg.Name,
				errors.Join(nats.ErrConnectionClosed, nc.LastError()))
		}
	}
}

// register makes the service. It subscribes without a queue group: the server goes on for minutes to give a process
// that hangs, or behind a wire that is half open, its share of the requests to a group. So each replica gets each
// request, and the one that leads answers.
func (s *Service) register(ctx context.Context) error {
	svc, err := micro.AddService(s.cfg.Conn, micro.Config{
		Name: s.cfg.Name, Version: s.cfg.Version, Description: s.cfg.Description,
		Metadata: map[string]string{
			"nagi.service": schemaVersion, "nagi.inboxes": strings.Join(s.cfg.Inboxes, ","),
		},
		QueueGroupDisabled: true,
	})
	if err != nil {
		return err
	}
	for _, c := range s.controllers() {
		group := svc.AddGroup(s.cfg.Prefix + "." + token(c.name()))
		for _, v := range verbs() {
			if err := s.addEndpoints(ctx, group, c, v); err != nil {
				return errors.Join(err, svc.Stop())
			}
		}
	}
	return nil
}

// What waits at one endpoint: more is dropped, so that who sends much cannot fill the memory. As many acts may have
// their turn, or wait for it.
const (
	mostWaiting      = 256
	mostWaitingBytes = 4 << 20
)

func (s *Service) addEndpoints(ctx context.Context, group micro.Group, c *served, v *verb) error {
	subjects := map[string]bool{v.access + "." + v.name: false}
	if !v.whole && c.primary.Config().Namespaced {
		subjects[v.access+"."+v.name+".*"] = true
	}
	for subject, confined := range subjects {
		err := group.AddEndpoint(v.name, s.handler(ctx, c, v, confined), micro.WithEndpointSubject(subject),
			micro.WithEndpointMetadata(map[string]string{"controller": c.name(), "access": v.access}),
			micro.WithEndpointPendingLimits(mostWaiting, mostWaitingBytes))
		if err != nil {
			return fmt.Errorf("endpoint %s of controller %q: %w", subject, c.name(), err)
		}
	}
	return nil
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
