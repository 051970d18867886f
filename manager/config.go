package manager

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nats-io/nats.go"
)

// Defaults of Config.
const (
	DefaultPingInterval     = 2 * time.Second
	DefaultMaxPings         = 2
	DefaultGracePeriod      = 25 * time.Second
	DefaultCacheSyncTimeout = 2 * time.Minute
)

// Config says where the manager connects, as whom, and how it runs. The zero value connects as the nats command line
// would, see the package comment. A field that contradicts another, or one of the context of the nats command line, is
// an error: nothing is overridden silently.
type Config struct {
	// Name is that of the process, for its connection (nats server report connections) and logs. The zero value means
	// the name of the program's file.
	Name string

	// URL is that of a server, or of several, separated by commas: "nats://a:4222,nats://b:4222". The scheme is nats,
	// tls, ws or wss. It may hold user and password, or a token; logs and errors do not show them.
	URL string
	// Context names a context of the nats command line, or is the absolute path of its file. The context says where to
	// connect and as whom, and all that Config leaves open: inbox prefix, JetStream domain, TLS.
	Context string
	// Conn is a connection that the user made, in place of all that is about connecting. The manager neither drains nor
	// closes it.
	Conn *nats.Conn

	// User and Password, Token, Creds and NKey say who connects; at most one of them.
	User, Password string
	Token          string
	// Creds is the path of a credentials file, with JWT and key. It is read at each connect, so it may be replaced.
	Creds string
	// NKey is the path of a file that holds the seed of an nkey.
	NKey string

	// CA, Cert and Key are paths of PEM files: who signs the server's certificate, and the client's certificate and
	// key. TLS is the whole configuration in place of them. Without any, the server's certificate is verified by the
	// system's authorities, if the server wants TLS.
	CA, Cert, Key string
	TLS           *tls.Config

	// InboxPrefix is what the subjects start with on which the process gets answers, in place of "_INBOX". A user who
	// may subscribe to its own inboxes only needs it; see entity.WithInboxPrefix.
	InboxPrefix string
	// Domain is the JetStream domain, APIPrefix the prefix of an API that another account exports; at most one of them.
	Domain    string
	APIPrefix string

	// PingInterval and MaxPings find a dead peer: one that answers none of MaxPings pings is left after
	// (MaxPings+1) * PingInterval. The zero values mean 2 s and 2, so that a dead peer is found within 6 s. nats.go
	// takes 6 minutes by default.
	PingInterval time.Duration
	MaxPings     int
	// WaitForServer is how long New waits for a server that is not there or does not answer. It says for whom in the
	// log. The zero value does not wait. What a server answers, as that it does not know the user, is never waited for.
	WaitForServer time.Duration
	// Options are further options of the connection. They come last. Options that replace the error handler or the
	// reconnect settings replace those of the manager.
	Options []nats.Option

	// GracePeriod is how long Run may take to stop, as a whole; see Manager.Run. Set it to some seconds less than the
	// process is given by who ends it, as terminationGracePeriodSeconds of Kubernetes, which is 30. The zero value
	// means 25 s, a negative one no limit.
	GracePeriod time.Duration
	// CacheSyncTimeout is how long the caches may take to fill before Run fails. The zero value means 2 minutes.
	CacheSyncTimeout time.Duration
	// Only has Run do one thing in place of running the controllers, and return: OnlyPermissions prints what each role
	// needs, without a server; OnlyBuckets makes the buckets. Make it a flag of the program: the roles and buckets are
	// then those of its own clients and controllers. What main does beside, between New and Run, it does all the same.
	// The zero value runs.
	Only string
	// Service has the manager run a service over which controllers are asked: service.For(service.Config{}). It gets a
	// connection of its own, made as that of the manager, of the user that ServiceAs names: one who may publish to
	// inboxes only (docs/service.md). The zero value of ServiceAs means the user of the manager, for servers without
	// users. Events has the manager make a recorder of events; its Component is Name unless it is set. Controllers get
	// both by the option Manager.Controller. The zero values, nil, mean none.
	Service   Service
	ServiceAs User
	Events    *recorder.Config
	// Lease makes all controllers of a process lead together. The zero value, nil, leaves each to the lease of its own.
	Lease *Lease
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, filepath.Base(os.Args[0]))
	c.PingInterval = cmp.Or(c.PingInterval, DefaultPingInterval)
	c.MaxPings = cmp.Or(c.MaxPings, DefaultMaxPings)
	c.GracePeriod = cmp.Or(c.GracePeriod, DefaultGracePeriod)
	c.CacheSyncTimeout = cmp.Or(c.CacheSyncTimeout, DefaultCacheSyncTimeout)
	if c.Lease != nil {
		c.Lease = c.Lease.withDefaults(c.Name)
		c.Lease.BindOnly = c.Lease.BindOnly && c.Only != OnlyBuckets
	}
	return c
}

// validate says all that is wrong with a Config whose defaults are filled in, as far as it alone tells.
func (c Config) validate() error {
	errs := []error{c.validateConn(), c.validateTLS(), c.validateJetStream()}
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.URL != "" && c.Context != "" {
		refuse("Config.URL and Config.Context both say where to connect: leave one of them empty")
	}
	if c.Password != "" && c.User == "" {
		refuse("Config.Password is set, and Config.User is not: set both")
	}
	if c.Domain != "" && c.APIPrefix != "" {
		refuse("Config.Domain (%q) and Config.APIPrefix (%q) both say where JetStream is: leave one of them empty",
			c.Domain, c.APIPrefix)
	}
	for name, d := range map[string]time.Duration{
		"PingInterval": c.PingInterval, "WaitForServer": c.WaitForServer, "CacheSyncTimeout": c.CacheSyncTimeout,
	} {
		if d < 0 {
			refuse("Config.%s is %v: it must not be negative", name, d)
		}
	}
	if c.Only != "" && c.Only != OnlyPermissions && c.Only != OnlyBuckets {
		refuse("Config.Only is %q: it is %q, %q or empty", c.Only, OnlyPermissions, OnlyBuckets)
	}
	if c.MaxPings < 0 {
		refuse("Config.MaxPings is %d: it must not be negative", c.MaxPings)
	}
	if c.Lease != nil {
		errs = append(errs, c.Lease.validate())
	}
	return errors.Join(errs...)
}

func (c Config) validateJetStream() error {
	if err := kvstream.CheckAPI(c.Domain, c.APIPrefix); err != nil {
		return fmt.Errorf("Config.Domain or Config.APIPrefix: %w", err)
	}
	return nil
}

// validateConn refuses what a connection of the user makes meaningless.
func (c Config) validateConn() error {
	if c.Conn == nil {
		return nil
	}
	set := map[string]bool{
		"URL": c.URL != "", "Context": c.Context != "", "WaitForServer": c.WaitForServer != 0,
		"InboxPrefix": c.InboxPrefix != "", "Options": len(c.Options) > 0, "TLS": c.hasTLS(),
		"PingInterval": c.PingInterval != DefaultPingInterval, "MaxPings": c.MaxPings != DefaultMaxPings,
	}
	for name, isSet := range set {
		if isSet {
			return fmt.Errorf("Config.Conn and Config.%s are set: a connection that is made already has its own; "+
				"leave Config.%s empty, or leave the connecting to the manager", name, name)
		}
	}
	if who := c.who(); len(who) > 0 {
		return fmt.Errorf("Config.Conn and %s are set: a connection that is made already has its own user; "+
			"leave %s empty, or leave the connecting to the manager", who[0], who[0])
	}
	return nil
}

func (c Config) hasTLS() bool { return c.TLS != nil || c.CA != "" || c.Cert != "" || c.Key != "" }

func (c Config) validateTLS() error {
	switch {
	case c.TLS != nil && (c.CA != "" || c.Cert != "" || c.Key != ""):
		return errors.New("Config.TLS and Config.CA, Cert or Key both say how TLS is done: leave one of them empty")
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("Config.Cert and Config.Key belong together: set both, or none")
	}
	return nil
}

// who names the fields that say who connects.
func (c Config) who() (fields []string) {
	for _, f := range []struct{ name, value string }{
		{"Config.User", c.User}, {"Config.Token", c.Token}, {"Config.Creds", c.Creds}, {"Config.NKey", c.NKey},
	} {
		if f.value != "" {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// checkWho refuses more than one that says who connects.
func checkWho(fields []string) error {
	if len(fields) > 1 {
		return fmt.Errorf("%s all say who connects: leave one of them", strings.Join(fields, " and "))
	}
	return nil
}
