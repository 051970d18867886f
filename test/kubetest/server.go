package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
	"k8s.io/client-go/rest"
)

// startLimit is how long one start of a built server may take. It takes two or three seconds on a quiet machine.
const startLimit = 2 * time.Minute

// Server is a Kubernetes API server and its etcd in their own process. It can be stopped, killed and started again on
// the same address and store. Its methods may be called by several goroutines at once.
type Server struct {
	binary   string
	dir      string
	owner    *os.File // locks a temporary store, which would else count as an orphan; nil for other stores
	port     int
	ownsPort bool
	args     []string
	creds    *credentials

	mu      sync.Mutex
	process *process // nil while stopped
	closed  bool
}

// Start starts an API server as [Open] does, with a temporary store, and closes it when the test and its subtests are
// complete. If the server cannot be built or started, the test fails and says why. If the test has a time limit and the
// build needs longer, the test fails before the limit.
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

// Open starts an API server that stores in dir, and returns when it serves and has made the default namespace. The
// objects of an earlier server in dir are there again. If dir is empty, the store is temporary, and Close removes it.
// If this process dies before, the running server removes the store; if the server is down by then, the next Open
// does. The caller must call Close. ctx bounds Open, the build of the binary included, not the server's life.
func Open(ctx context.Context, dir string, opts ...Option) (*Server, error) {
	binary, err := Binary(ctx)
	if err != nil {
		return nil, err
	}
	// Another program may take a random port between its choice and its use: then we try another one.
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
		if s.port, err = ports.Claim(); err != nil {
			return nil, err
		}
		s.ownsPort = true
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

// Config returns a configuration with a cluster administrator's rights, without a limit of requests on the client's
// side. Each call returns a new one, which the caller may change. It stays valid over restarts.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            "https://" + ports.Address(s.port),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.creds.certificate},
		BearerToken:     s.creds.token,
		QPS:             -1,
	}
}

// ConfigFor returns a configuration for an authenticated user of that name. The user has only the rights that RBAC
// gives to everybody, until the test grants more. Any name will do.
func (s *Server) ConfigFor(user string) *rest.Config {
	cfg := s.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return cfg
}

// Stop stops the server in good order and waits until it is down: requests end, watches are closed. The store is
// kept. It does nothing if the server is down.
func (s *Server) Stop() { s.end((*process).stop) }

// Kill ends the server at once, as SIGKILL does, and waits until it is gone. Clients see their connections reset. The
// writes that the server has acknowledged are kept. Kill does nothing if the server is down.
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
	if s.closed {
		return
	}
	s.closed = true
	if s.owner == nil {
		s.endLocked((*process).stop)
	} else {
		s.endLocked((*process).kill) // nobody will look at the store again
		_ = os.RemoveAll(s.dir)      // it is a temporary directory: what is left only takes space
		_ = s.owner.Close()
	}
	if s.ownsPort {
		ports.Release(s.port)
	}
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
	return append(append(flags, "-store", s.etcdDir(),
		"-certificate", s.creds.etcdCertFile, "-key", s.creds.etcdKeyFile, "--",
		"--bind-address="+ports.Host,
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
		"--advertise-address="+ports.Host,
		"--endpoint-reconciler-type=none",
		"--cert-dir="+s.dir,
		// Otherwise a server with an open watch takes a minute to stop.
		"--shutdown-send-retry-after=true",
		"--profiling=false",
	), s.args...)
}
