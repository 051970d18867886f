package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// Manager runs the controllers of a process over one connection and shared caches. [New] makes one, [Manager.Run] runs
// it, once. All methods may be called concurrently.
type Manager struct {
	cfg     Config
	conn    *nats.Conn
	js      jetstream.JetStream
	clients registry

	events      *recorder.Recorder // of Config.Events
	serviceConn *nats.Conn         // of Config.Service

	unfilled unfilled    // the caches that Run is to fill
	lease    *leaseStore // nil without a lease of the process

	over    chan struct{} // closed when Run has returned, or Close was called
	ordered chan struct{} // has a value while there may be orders

	mu        sync.Mutex
	state     state
	orders    []command
	runnables []*named
	factories []factory
	recorders []recorder.Config // of NewRecorder, over the manager's connection
	hooks     []hook
}

// state is where a manager is in its life.
type state int

const (
	collecting state = iota // New has returned
	running                 // Run was called
	stopping                // Run starts nothing any more
	closed                  // Run has returned, or Close was called
)

// hook is something to call at the end.
type hook struct {
	name string
	call func(context.Context) error
}

// New connects to NATS. It fails if Config contradicts itself, or if no server answers, or only after
// Config.WaitForServer. ctx is for New only; its logger (klog.NewContext) also takes what is to say of the connection
// later. When ctx ends, New returns within moments, or within two seconds for each server that does not answer.
//
// [Manager.Run] closes all at its end. Who may return between New and Run defers [Manager.Close].
func New(ctx context.Context, cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	conn, js, err := connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	m := &Manager{cfg: cfg, conn: conn, js: js, over: make(chan struct{}), ordered: make(chan struct{}, 1)}
	m.clients.js, m.clients.making, m.clients.only = js, turn.New(), cfg.Only
	m.unfilled.add(notBegun)
	if cfg.Lease != nil {
		m.clients.leases = cfg.Lease.Bucket
	}
	if cfg.Lease != nil && cfg.Only != OnlyPermissions {
		if err := m.openLease(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("manager: %w", err), m.Close(context.WithoutCancel(ctx)))
		}
	}
	if err := m.openParts(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("manager: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// Conn is the connection. It is drained and closed when Run returns, unless it is Config.Conn.
func (m *Manager) Conn() *nats.Conn { return m.conn }

// JetStream is the JetStream context, in the domain that was configured, for clients that the manager does not close.
func (m *Manager) JetStream() jetstream.JetStream { return m.js }

// NewRecorder makes a recorder of events. Config.JetStream of a recorder defaults to the manager's. When all
// controllers have stopped, and before the connection is drained, Run sends what was recorded and closes the recorder.
func (m *Manager) NewRecorder(cfg recorder.Config) (*recorder.Recorder, error) {
	if cfg.JetStream == nil {
		cfg.JetStream = m.js
	}
	if m.cfg.Only == "" || cfg.JetStream != m.js {
		return m.newRecorder(cfg)
	}
	m.noteRecorder(cfg)
	cfg.JetStream = nil // what is recorded is dropped: nothing runs
	return m.newRecorder(cfg)
}

// noteRecorder keeps what a recorder over the manager's connection needs.
func (m *Manager) noteRecorder(cfg recorder.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorders = append(m.recorders, cfg)
}

func (m *Manager) allRecorders() []recorder.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.recorders)
}

func (m *Manager) newRecorder(cfg recorder.Config) (*recorder.Recorder, error) {
	if cfg.JetStream == m.js {
		m.noteRecorder(cfg)
	}
	r, err := recorder.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := m.OnStop("recorder of events", r.Close); err != nil {
		return nil, errors.Join(err, r.Close(context.Background()))
	}
	return r, nil
}

// OnStop has f called at the end of Run or Close: after all that was added has returned, and before the connection is
// drained. It is for what sends the last of something, such as the Shutdown of a tracer provider. The functions are
// called one after the other, the one that was given last first, as with defer. The context of f ends with the grace
// period. An error is returned by Run, with the name. After the end OnStop fails.
func (m *Manager) OnStop(name string, f func(context.Context) error) error {
	if f == nil {
		return fmt.Errorf("manager: OnStop(%q, nil): a function is needed", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == closed {
		return fmt.Errorf("manager: OnStop(%q): the manager was closed", name)
	}
	m.hooks = append(m.hooks, hook{name, f})
	return nil
}

// Close closes the clients, calls what OnStop was given, and drains the connection. It is for a manager that does not
// run. After Run it does nothing, and during Run it is an error: end the context of Run instead.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	was := m.state
	if was == collecting {
		m.state = closed
	}
	m.mu.Unlock()
	switch was {
	case running, stopping:
		return errors.New("manager: Close while Run runs: end the context of Run, which closes the manager")
	case closed:
		return nil
	}
	m.noteDone(m.present()...)
	defer close(m.over)
	ending := newDeadlines(m.cfg.GracePeriod)
	defer ending.Stop()
	ending.BoundBy(ctx)
	return errors.Join(m.callHooks(ending), m.release(ending, false))
}

// callHooks calls what OnStop was given, the last first.
func (m *Manager) callHooks(ending *deadlines) error {
	m.mu.Lock()
	m.state = closed // another hook would not be called
	hooks := slices.Clone(m.hooks)
	m.mu.Unlock()
	var errs []error
	for _, h := range slices.Backward(hooks) {
		errs = append(errs, ending.Last(h.name, h.call))
	}
	return errors.Join(errs...)
}

// release gives back clients and connection. Where something was left behind the connection is closed at once, so that
// it writes nothing any more.
func (m *Manager) release(ending *deadlines, leftBehind bool) error {
	closing := ending.Last("clients", func(context.Context) error {
		m.clients.close()
		if m.lease != nil {
			m.lease.client.Close()
		}
		return nil
	})
	if m.serviceConn != nil {
		m.serviceConn.Close() // where it ran, it has drained it
	}
	return errors.Join(closing, m.disconnect(ending, leftBehind))
}

// disconnect drains the connection, if it is the manager's.
func (m *Manager) disconnect(ending *deadlines, leftBehind bool) error {
	if m.cfg.Conn != nil {
		return nil
	}
	defer m.conn.Close()
	if leftBehind || !m.conn.IsConnected() {
		return nil // what is buffered for a server that is away is lost with the process
	}
	return ending.Last("connection to NATS", func(ctx context.Context) error {
		gone := m.conn.StatusChanged(nats.CLOSED)
		defer m.conn.RemoveStatusListener(gone)
		if err := m.conn.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		for !m.conn.IsClosed() {
			select {
			case <-gone:
			case <-ctx.Done():
				return fmt.Errorf("drain it: %w", context.Cause(ctx))
			}
		}
		return nil
	})
}

// logger is that of a context, for what others wrote.
func logger(ctx context.Context) klog.Logger { return printable.Logger(klog.FromContext(ctx)) }
