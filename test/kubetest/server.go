package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// startLimit is how long one start of a built server may take. It takes two or three seconds on a quiet machine.
const startLimit = 2 * time.Minute

// Server is a Kubernetes API server with its own etcd, in a process of its own. It can be stopped, killed and started
// again on the same address and store. Its methods may be called by several goroutines at once.
type Server struct {
	binary string
	dir    string
	owner  *os.File // keeps a temporary store from being taken for an orphan; else nil
	port   int
	args   []string
	creds  *credentials

	mu      sync.Mutex
	process *process // nil while stopped
	closed  bool
}

// Start starts an API server as [Open] does, with a temporary store, and closes it when the test and its subtests are
// complete. A server that cannot be built or started fails the test and says why. If the test has a time limit, a
// build that would need longer than it fails the test in time.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	ctx := context.Background()
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := limited.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-5*time.Second))
			defer cancel()
		}
	}
	s, err := Open(ctx, "", opts...)
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Open starts an API server that stores in dir, and returns when it serves and has made the default namespace. What an
// earlier server left in dir is there again. If dir is empty, the store is temporary: Close removes it, and so does
// the server, if it runs, when this process dies; if it is down at that time, whoever opens the next one does. The caller
// must call Close. ctx bounds Open, the build of the binary included, not the server's life.
func Open(ctx context.Context, dir string, opts ...Option) (*Server, error) {
	binary, err := Binary(ctx)
	if err != nil {
		return nil, err
	}
	// Between the choice of a random port and its use somebody else may take it: then another one is tried.
	const attempts = 5
	cfg := newConfig(opts)
	for attempt := 1; ; attempt++ {
		s, err := prepare(binary, dir, cfg)
		if err != nil {
			return nil, err
		}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		s.Close()
		if cfg.port != 0 || attempt == attempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

// prepare chooses port, store and credentials, and starts nothing.
func prepare(binary, dir string, cfg config) (*Server, error) {
	s := &Server{binary: binary, port: cfg.port, args: cfg.args}
	var err error
	if s.port == 0 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if dir == "" {
		if s.dir, s.owner, err = newStore(); err != nil {
			return nil, err
		}
	} else {
		if s.dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("find the store %s: %w", dir, err)
		}
		if err = os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the store: %w", err)
		}
	}
	if s.creds, err = newCredentials(s.dir); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Config is a cluster administrator's way to the server, without a limit of requests on the client's side. Each call
// returns a new one, for the caller to change. It stays good over restarts.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, strconv.Itoa(s.port)),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.creds.certificate},
		BearerToken:     s.creds.token,
		QPS:             -1,
	}
}

// ConfigFor is the same for a user of that name, who is authenticated and has no rights but those that RBAC gives to
// everybody, until the test grants more. Any name will do.
func (s *Server) ConfigFor(user string) *rest.Config {
	cfg := s.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return cfg
}

// Stop stops the server in good order and waits until it is down: requests end, watches are closed. The store is
// kept. It does nothing if the server is down.
func (s *Server) Stop() { s.end((*process).stop) }

// Kill ends the server as SIGKILL does, at once and wherever it is, and waits until it is gone. Clients see their
// connections reset. What the server had acknowledged is kept. It does nothing if the server is down.
func (s *Server) Kill() { s.end((*process).kill) }

func (s *Server) end(how func(*process)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(how)
}

func (s *Server) endLocked(how func(*process)) {
	if s.process == nil {
		return
	}
	how(s.process)
	s.process = nil
}

// Restart stops the server if it runs, starts it on the same port and store, and returns when it serves.
func (s *Server) Restart() error {
	s.Stop()
	return s.start(context.Background())
}

// Close stops the server for good and removes its temporary store. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.owner == nil {
		s.endLocked((*process).stop)
		return
	}
	s.endLocked((*process).kill) // nobody will look at the store again
	_ = os.RemoveAll(s.dir)      // nobody is left to tell, and it is a temporary directory
	_ = s.owner.Close()
}

func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("start the API server: it is closed")
	}
	if s.process != nil {
		return nil
	}
	p, err := startProcess(s.binary, filepath.Join(s.dir, "kube-apiserver.log"), s.flags())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.waitReady(ctx, p); err != nil {
		p.kill()
		return err
	}
	s.process = p
	return nil
}

func (s *Server) flags() []string {
	var flags []string
	if s.owner != nil {
		flags = append(flags, "-temporary", s.dir)
	}
	return append(append(flags, "-store", filepath.Join(s.dir, "etcd"), "--",
		"--bind-address="+host,
		"--secure-port="+strconv.Itoa(s.port),
		"--tls-cert-file="+s.creds.certFile,
		"--tls-private-key-file="+s.creds.keyFile,
		"--token-auth-file="+s.creds.tokenFile,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.creds.serviceAccountKeyFile,
		"--service-account-signing-key-file="+s.creds.serviceAccountKeyFile,
		"--service-cluster-ip-range=10.0.0.0/16",
		// Nobody makes the default ServiceAccount of a namespace, so Pods must do without.
		"--disable-admission-plugins=ServiceAccount",
		// A machine may have no address but loopback, which must not become an endpoint of the service "kubernetes".
		"--advertise-address="+host,
		"--endpoint-reconciler-type=none",
		"--cert-dir="+s.dir,
		// Otherwise a server with an open watch takes a minute to stop.
		"--shutdown-send-retry-after=true",
		"--profiling=false",
	), s.args...)
}
