package probes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
// a port that is in use, or if a listener breaks.
func (s *Server) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	for path, h := range s.Handlers {
		mux.Handle(path, h)
	}
	var servers []*served
	for _, one := range []*served{
		{what: "handlers", address: s.Address, handler: mux, write: writeTimeout},
		{what: "profiles", address: s.ProfilesAddress, handler: profiles(), write: longestProfile + writeTimeout},
	} {
		if one.address == "" {
			continue
		}
		if err := one.listen(ctx); err != nil {
			for _, open := range servers {
				_ = open.listener.Close()
			}
			return err
		}
		servers = append(servers, one)
	}
	for _, one := range servers {
		klog.FromContext(ctx).Info("Serving over HTTP", "what", one.what, "address", one.listener.Addr().String())
		if s.Listening != nil {
			s.Listening(one.what, one.listener.Addr())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(servers))
	var serving sync.WaitGroup
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

// serve serves until ctx ends.
func (s *served) serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: s.write, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes,
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
