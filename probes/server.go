package probes

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// Server serves handlers until its context ends. The zero value listens nowhere.
type Server struct {
	// Address is where Handlers are served: "host:port", or ":port", which is that port on the loopback interface. For
	// all interfaces say so: "0.0.0.0:8080" or "[::]:8080". "" opens no listener. Port 0 takes a free one.
	Address string
	// Handlers are served by path: those of Probes, and that of metrics.
	Handlers map[string]http.Handler
	// ProfilesAddress is where the profiles of Go are served, below /debug/pprof/, in the form of Address. "", the
	// default, serves none. Who can reach it reads the memory of the process, where secrets are: keep it on loopback.
	ProfilesAddress string
	// TLS has both addresses served over TLS. The zero value, nil, serves plain HTTP.
	TLS *TLS
	// Auth says who may ask for Handlers and profiles. The zero value, nil, lets in who reaches the address. Tokens are
	// for TLS: without it, Run warns unless all addresses are on the loopback interface.
	Auth Auth
	// Open are the paths of Handlers that need neither Auth nor the certificate of a client. The zero value, nil, means
	// /healthz and /readyz, because a kubelet cannot show who it is. An empty list that is not nil protects them, too.
	Open []string
	// Listening, if set, is called when a listener is open: for "handlers" or "profiles", and where.
	Listening func(what string, address net.Addr)
}

// The limits of a connection. Each answer but a profile is short.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 16 << 10
	// longestProfile is how long a profile may be taken.
	longestProfile = 5 * time.Minute
	stopTimeout    = 5 * time.Second
)

// StartsFirst has a manager (package manager) start the server before it fills its caches: a process that does that for
// a minute is alive.
func (s *Server) StartsFirst() bool { return true }

// Run serves until ctx ends, and returns when the listeners are closed and no request is answered any more. Requests
// under way have 5 seconds then. Without an address it only waits. It returns an error if it cannot listen, such as on
// a port that is in use, if files of TLS cannot be used, or if a listener breaks.
func (s *Server) Run(ctx context.Context) error {
	certs, config, err := s.openTLS()
	if err != nil {
		return err
	}
	servers, err := s.listen(ctx, &gate{auth: s.Auth, certs: certs}, config)
	if err != nil {
		return err
	}
	scheme := map[bool]string{true: "https", false: "http"}[config != nil]
	for _, one := range servers {
		klog.FromContext(ctx).Info("Serving over HTTP", "what", one.what, "scheme", scheme,
			"address", one.listener.Addr().String())
		one.warn(ctx, s.Auth != nil && config == nil)
		if s.Listening != nil {
			s.Listening(one.what, one.listener.Addr())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(servers))
	var serving sync.WaitGroup
	if certs != nil {
		serving.Go(func() { certs.watch(ctx) })
	}
	for i, one := range servers {
		serving.Go(func() {
			defer cancel() // with one of them broken, the other ends, and Run says why
			errs[i] = one.serve(ctx)
		})
	}
	<-ctx.Done()
	serving.Wait()
	return errors.Join(errs...)
}

// openTLS returns what TLS needs; nil without.
func (s *Server) openTLS() (*certs, *tls.Config, error) {
	if s.TLS == nil {
		return nil, nil, nil
	}
	certs, err := s.TLS.open()
	if err != nil {
		return nil, nil, err
	}
	config, err := certs.config()
	return certs, config, err
}

// listen opens the listeners, or none.
func (s *Server) listen(ctx context.Context, g *gate, config *tls.Config) (servers []*served, err error) {
	handlers, err := s.handlers(g)
	if err != nil {
		return nil, err
	}
	for _, one := range []*served{
		{what: "handlers", address: s.Address, handler: handlers, write: writeTimeout},
		{what: "profiles", address: s.ProfilesAddress, handler: g.protect(profiles()),
			write: longestProfile + writeTimeout},
	} {
		if one.address == "" {
			continue
		}
		if err := one.listen(ctx); err != nil {
			for _, open := range servers {
				_ = open.listener.Close()
			}
			return nil, err
		}
		if config != nil {
			one.listener = tls.NewListener(one.listener, config)
		}
		servers = append(servers, one)
	}
	return servers, nil
}

// handlers serves the handlers by path, behind the gate unless they are open.
func (s *Server) handlers(g *gate) (http.Handler, error) {
	open := s.Open
	if open == nil {
		open = openPaths
	}
	for _, path := range s.Open {
		if s.Handlers[path] == nil {
			return nil, fmt.Errorf("probes: Server.Open has %s, and Server.Handlers has no such path: name one as "+
				"it is there", printable.Quote(path))
		}
	}
	mux := http.NewServeMux()
	for path, h := range s.Handlers {
		if !slices.Contains(open, path) {
			h = g.protect(h)
		}
		mux.Handle(path, h)
	}
	return mux, nil
}

// served is one listener.
type served struct {
	what, address string
	handler       http.Handler
	write         time.Duration
	listener      net.Listener
}

func (s *served) listen(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return fmt.Errorf("probes: address of %s %s: %w: want \"host:port\" or \":port\"",
			s.what, printable.Quote(s.address), err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("probes: cannot serve %s on %s: %w: if another process uses the port, choose another one",
			s.what, net.JoinHostPort(host, port), err)
	}
	return nil
}

// warn says that tokens may be read on their way, unless they do not leave the machine.
func (s *served) warn(ctx context.Context, plain bool) {
	if at, ok := s.listener.Addr().(*net.TCPAddr); plain && !(ok && at.IP.IsLoopback()) {
		klog.FromContext(ctx).Info("Warning: tokens are asked for over plain HTTP, where who is on the way can read "+
			"them: set Server.TLS, or listen on the loopback interface behind a proxy that does TLS", "what", s.what)
	}
}

// failures writes what net/http logs: of a handshake that failed, as a port scan causes it, only if it is asked for.
type failures struct{ log klog.Logger }

func (f failures) Write(text []byte) (int, error) {
	log := f.log
	if bytes.Contains(text, []byte("TLS handshake error")) {
		log = log.V(2)
	}
	log.Info(strings.TrimSpace(string(text)))
	return len(text), nil
}

// serve serves until ctx ends.
func (s *served) serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: s.write, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes,
		ErrorLog:       log.New(failures{printable.Logger(klog.FromContext(ctx))}, "", 0),
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close() // who has not read its answer by now does not get it
		}
	})
	err := server.Serve(s.listener)
	if stop() {
		return fmt.Errorf("probes: serving %s on %s: %w", s.what, s.listener.Addr(), err)
	}
	<-stopped
	return nil
}
