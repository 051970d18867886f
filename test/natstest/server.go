package natstest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
	"github.com/nats-io/nats-server/v2/server"
)

// Limits of a server's JetStream. They are fixed, so that a test does not depend on how full the machine's disk is.
const (
	maxMemory = 4 << 30
	maxStore  = 1 << 40
)

// Server is an embedded nats-server that can be stopped and started again on the same port and store. Its methods may
// be called by several goroutines at once.
type Server struct {
	name     string
	port     int
	ownsPort bool
	dir      string
	ownsDir  bool
	cfg      config
	url      string
	virtual  bool
	wire     wire // of the clients in virtual time

	mu     sync.Mutex
	srv    *server.Server // nil while stopped
	log    *serverLog
	closed bool
}

// New starts a server with JetStream on a random loopback port, with a temporary store. When New returns, clients can
// connect. The caller must call Close. In a test, [Start] does.
func New(opts ...Option) (*Server, error) {
	// Another program may take a random port between its choice and its use: then we try another one.
	const attempts = 5
	cfg := newConfig(opts)
	for attempt := 1; ; attempt++ {
		s, err := prepare("natstest", cfg)
		if err != nil {
			return nil, err
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
		s.Close()
		if cfg.port != 0 || attempt == attempts || !errors.Is(err, errListen) {
			return nil, err
		}
	}
}

// Start starts a server as [New] does, and closes it when the test and its subtests are complete. If the server does
// not start, the test fails.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := New(opts...)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// prepare chooses port and store, and starts nothing.
func prepare(name string, cfg config) (*Server, error) {
	s := &Server{name: name, port: cfg.port, dir: cfg.storeDir, cfg: cfg, virtual: isVirtual()}
	switch {
	case s.port != 0:
	case s.virtual:
		s.port = network.port()
	default:
		port, err := ports.Claim()
		if err != nil {
			return nil, err
		}
		s.port, s.ownsPort = port, true
	}
	s.url = "nats://" + ports.Address(s.port)
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "natstest-")
		if err != nil {
			return nil, fmt.Errorf("create a temporary store: %w", err)
		}
		s.dir, s.ownsDir = dir, true
	}
	return s, nil
}

// URL returns the address for clients. It stays the same for the server's whole life, restarts included.
func (s *Server) URL() string { return s.url }

// Port returns the port of URL.
func (s *Server) Port() int { return s.port }

// StoreDir returns the directory below which the server stores.
func (s *Server) StoreDir() string { return s.dir }

// Server returns the running nats-server, for uses without a method here; nil while stopped. Each start makes a new
// one.
func (s *Server) Server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.srv
}

// ask calls f with the nats-server if one runs, and keeps it from stopping meanwhile: nats-server's questions about
// its JetStream cluster panic if they meet a shutdown.
func (s *Server) ask(f func(*server.Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv != nil {
		f(s.srv)
	}
}

// Start starts a stopped server on the same port and store, and returns when clients can connect. It does nothing if
// the server runs. If another program holds the port, Start waits some seconds for it.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("start nats-server on %s: it was closed", s.url)
	}
	if s.srv != nil {
		return nil
	}
	wait := portWait
	if s.log == nil { // the first start: a port that is taken now was never ours
		wait = 0
	}
	if !s.virtual {
		if err := retry(wait, func() error { return ports.Probe(s.port) }); err != nil {
			return fmt.Errorf("start nats-server on %s: %w: %w", s.url, errListen, err)
		}
	}
	return s.startLocked()
}

var errListen = errors.New("cannot listen on its port")

func (s *Server) startLocked() error {
	o, err := s.options()
	if err != nil {
		return err
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("configure nats-server on %s: %w", s.url, err)
	}
	s.log = &serverLog{logf: s.cfg.logf, name: s.name}
	srv.SetLoggerV2(s.log, o.Debug, o.Trace, o.TraceVerbose)

	srv.Start() // returns once everything listens, or failed
	if fatal := s.log.lastFatal(); fatal != "" || !srv.ReadyForConnections(10*time.Second) {
		listening := s.virtual || srv.Addr() != nil
		s.shutdown(srv)
		err := fmt.Errorf("start nats-server on %s with its store in %s: %s", s.url, s.dir, fatal)
		if !listening {
			err = fmt.Errorf("%w: %w", errListen, err)
		}
		return err
	}
	s.srv = srv
	if s.virtual {
		network.listen(s.port, func() (net.Conn, error) { return s.accept(srv) })
	}
	return nil
}

// accept connects a client in virtual time.
func (s *Server) accept(srv *server.Server) (net.Conn, error) {
	client, ours := Pipe()
	s.wire.carry(ours, srv.InProcessConn)
	return client, nil
}

// options returns new options for each start, because nats-server changes those it is given.
func (s *Server) options() (*server.Options, error) {
	o := &server.Options{}
	if s.cfg.configText != "" {
		if err := o.ProcessConfigString(s.cfg.configText); err != nil {
			return nil, fmt.Errorf("configuration of nats-server on %s: %w", s.url, err)
		}
	}
	o.ServerName = s.name
	o.Host, o.Port, o.DontListen = ports.Host, s.port, s.virtual
	o.NoSigs = true
	// By itself it closes a connection that has not said who it is within two seconds.
	o.AuthTimeout = cmp.Or(o.AuthTimeout, slowest.Seconds())
	o.JetStream = !s.cfg.noJetStream
	o.StoreDir = s.dir
	o.JetStreamMaxMemory = cmp.Or(o.JetStreamMaxMemory, maxMemory)
	o.JetStreamMaxStore = cmp.Or(o.JetStreamMaxStore, maxStore)
	o.SyncAlways = o.SyncAlways || s.cfg.syncAlways
	if s.cfg.maxPayload > 0 {
		o.MaxPayload = s.cfg.maxPayload
		o.MaxPending = max(server.MAX_PENDING_SIZE, 2*int64(s.cfg.maxPayload))
	}
	for _, change := range s.cfg.change {
		change(o)
	}
	return o, nil
}

// Stop stops the server and returns when it is down: the port is closed and its goroutines have ended. The store is
// kept. Stopping a stopped server does nothing. In virtual time it takes some of it, about 50 ms, as a real one does.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
}

func (s *Server) stopLocked() {
	if s.srv != nil {
		s.shutdown(s.srv)
		s.srv = nil
	}
}

func (s *Server) shutdown(srv *server.Server) {
	if s.virtual {
		s.disconnectAll()
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	s.log.close()
}

// disconnectAll cuts off the clients before the server stops in virtual time. While it has to tell consumers of its end it
// sleeps with locks held, and whoever waits for one of them stops the clock.
func (s *Server) disconnectAll() {
	network.unlisten(s.port)
	s.wire.cut(everyLink)
	s.wire.running.Wait()
	time.Sleep(time.Nanosecond) // ends when nothing else works any more: the server has noticed
}

// Restart stops the server and starts it again on the same port and store.
func (s *Server) Restart() error {
	s.Stop()
	return s.Start()
}

// Reload makes the running server take changed options, as when its configuration is reloaded: other users, or other
// permissions. Connections stay, as far as the new options let them. A later start has the options of the first again.
func (s *Server) Reload(change func(*server.Options)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return fmt.Errorf("reload nats-server on %s: it is stopped", s.url)
	}
	o, err := s.options()
	if err != nil {
		return err
	}
	change(o)
	if err := s.srv.ReloadOptions(o); err != nil {
		return fmt.Errorf("reload nats-server on %s: %w", s.url, err)
	}
	return nil
}

// Close stops the server for good and removes its store, unless the store was given by [WithStoreDir]. Closing twice
// does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.stopLocked()
	if s.ownsPort {
		ports.Release(s.port)
	}
	if s.ownsDir {
		// A write that was under way may still create a file while the directory is being removed.
		_ = retry(time.Second, func() error { return os.RemoveAll(s.dir) })
	}
}
