package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"
	"k8s.io/klog/v2"
)

const (
	// reconnectWait and its jitter are the pauses between two tries to reconnect: caches are to follow within two
	// seconds of the server's return.
	reconnectWait   = 500 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	// connectTimeout bounds one try to connect to one server.
	connectTimeout = 2 * time.Second
	// writeTimeout bounds a write to a server that takes no bytes any more. nats.go holds its lock meanwhile, and sends
	// no pings, so this too is part of finding a dead peer.
	writeTimeout = 5 * time.Second
	// waitReminder is how often New says again for whom it waits.
	waitReminder = 10 * time.Second
)

// connect connects as Config says. The JetStream context is in the domain that it names.
func connect(ctx context.Context, cfg Config) (*nats.Conn, jetstream.JetStream, error) {
	if cfg.Conn != nil {
		js, err := newJetStream(cfg.Conn, cfg.Domain, cfg.APIPrefix)
		return cfg.Conn, js, err
	}
	if cfg.Only == OnlyPermissions {
		return unconnected(cfg)
	}
	at, err := cfg.locate()
	if err != nil {
		return nil, nil, err
	}
	opts, err := cfg.connOptions(klog.FromContext(ctx), at)
	if err != nil {
		return nil, nil, err
	}
	nc, err := dial(ctx, cfg, at, opts)
	if err != nil {
		return nil, nil, err
	}
	domain, prefix := cfg.Domain, cfg.APIPrefix
	if at.context != nil && domain == "" && prefix == "" {
		domain, prefix = at.context.JSDomain, at.context.JSAPIPrefix
	}
	js, err := newJetStream(nc, domain, prefix)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	klog.FromContext(ctx).Info("Connected to NATS", "url", redacted(nc.ConnectedUrl()),
		"from", at.from, "server", printable.Text(nc.ConnectedServerName()), "name", cfg.Name)
	return nc, js, nil
}

func newJetStream(nc *nats.Conn, domain, prefix string) (jetstream.JetStream, error) {
	switch {
	case domain != "":
		return jetstream.NewWithDomain(nc, domain)
	case prefix != "":
		return jetstream.NewWithAPIPrefix(nc, prefix)
	}
	return jetstream.New(nc)
}

// dial connects. It waits as long as Config says for a server that does not answer.
func dial(ctx context.Context, cfg Config, at target, opts []nats.Option) (*nats.Conn, error) {
	log := klog.FromContext(ctx)
	var waits notify.Fact
	for until := time.Now().Add(cfg.WaitForServer); ; {
		nc, err := at.connect(opts)
		if err == nil {
			return nc, nil
		}
		switch {
		case !unanswered(err):
			return nil, fmt.Errorf("connect to %v: %w", at, printable.Error(err))
		case cfg.WaitForServer == 0:
			return nil, fmt.Errorf("connect to %v: %w: is the server there? Config.WaitForServer would wait for it",
				at, printable.Error(err))
		case !time.Now().Before(until):
			return nil, fmt.Errorf("connect to %v, within the %v of Config.WaitForServer: %w: is the server there?",
				at, cfg.WaitForServer, printable.Error(err))
		}
		if waits.Remind(err.Error(), waitReminder) {
			log.Info("Waiting for a NATS server", "url", at.String(), "for", time.Until(until).Round(time.Second),
				"err", printable.Error(err))
		}
		pause := time.NewTimer(min(reconnectWait, time.Until(until)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("connect to %v: stopped while waiting for it (%w): %w", at, printable.Error(err),
				context.Cause(ctx))
		case <-pause.C:
		}
	}
}

// connect tries each server once.
func (t target) connect(opts []nats.Option) (*nats.Conn, error) {
	if t.context != nil {
		nc, _, err := natscontext.Connect(t.context.Path, opts...)
		return nc, err
	}
	return nats.Connect(strings.Join(t.urls, ","), opts...)
}

// unanswered reports whether an error of connecting means that no server answered, so that another try may help.
func unanswered(err error) bool {
	for _, none := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrStaleConnection, nats.ErrConnectionClosed,
		io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded,
	} {
		if errors.Is(err, none) {
			return true
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op != "remote error" // an alert of TLS: the server refused
	}
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

// connOptions are the options of the connection, those of the user last.
func (c Config) connOptions(log klog.Logger, at target) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.Timeout(connectTimeout),
		nats.PingInterval(c.PingInterval), nats.MaxPingsOutstanding(c.MaxPings),
		nats.FlusherTimeout(writeTimeout), nats.ReconnectOnFlusherError(),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		// Else nats.go closes the connection for good when a server refuses its user twice, as one whose credentials
		// have expired. They may come back.
		nats.IgnoreAuthErrorAbort(),
	}
	who, err := c.whoOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts, connectionLog(printable.Logger(log).WithValues("from", at.from))...)
	opts = append(opts, who...)
	opts = append(opts, c.tlsOptions()...)
	if c.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	return append(opts, c.Options...), nil
}

func (c Config) whoOptions() ([]nats.Option, error) {
	switch {
	case c.User != "":
		return []nats.Option{nats.UserInfo(c.User, c.Password)}, nil
	case c.Token != "":
		return []nats.Option{nats.Token(c.Token)}, nil
	case c.Creds != "":
		return []nats.Option{nats.UserCredentials(c.Creds)}, nil
	case c.NKey != "":
		option, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("read the seed of Config.NKey, the file %s: %w", c.NKey, err)
		}
		return []nats.Option{option}, nil
	}
	return nil, nil
}

func (c Config) tlsOptions() (opts []nats.Option) {
	if c.TLS != nil {
		opts = append(opts, nats.Secure(c.TLS))
	}
	if c.CA != "" {
		opts = append(opts, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		opts = append(opts, nats.ClientCert(c.Cert, c.Key))
	}
	return opts
}
