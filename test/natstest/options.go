package natstest

import (
	"github.com/nats-io/nats-server/v2/server"
)

// Option changes how a server, or each member of a cluster, is run.
type Option func(*config)

type config struct {
	noJetStream bool
	port        int
	storeDir    string
	maxPayload  int32
	syncAlways  bool
	logf        func(format string, args ...any)
	change      []func(*server.Options)
	configText  string
}

func newConfig(opts []Option) config {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithoutJetStream runs a server without JetStream, for tests of what happens when it is missing.
func WithoutJetStream() Option { return func(c *config) { c.noJetStream = true } }

// WithPort makes the server listen on port instead of a random one. The start fails if the port is taken. In a
// cluster, member i listens on port+i.
func WithPort(port int) Option { return func(c *config) { c.port = port } }

// WithStoreDir makes the server store below dir, which is created if missing and not removed at the end. In a cluster,
// each member has its own directory below dir. Without this option the store is temporary.
func WithStoreDir(dir string) Option { return func(c *config) { c.storeDir = dir } }

// WithMaxPayload sets the largest message, in bytes, that the server accepts. Without it, or with 0, it is the
// server's default of 1 MiB.
func WithMaxPayload(bytes int32) Option { return func(c *config) { c.maxPayload = bytes } }

// WithSyncAlways makes JetStream flush every write to the disk before it acknowledges. It is slow.
func WithSyncAlways() Option { return func(c *config) { c.syncAlways = true } }

// WithLog hands the server's log to logf, for instance t.Logf, log.Printf or klog.Infof. Without it a server is silent.
// The server calls logf from several goroutines at once, and no more after it has stopped.
// Add WithConfig(func(o *server.Options) { o.Debug = true }) to see more.
func WithLog(logf func(format string, args ...any)) Option {
	return func(c *config) { c.logf = logf }
}

// WithConfig lets change adjust the options of the server after all others were applied: users and permissions,
// limits, ping intervals, TLS. change is called before each start, a restart included, with fresh options, so a restart
// can bring a new configuration. It is best to leave the address and the store as they are.
func WithConfig(change func(*server.Options)) Option {
	return func(c *config) { c.change = append(c.change, change) }
}

// WithConfigText gives the server a configuration as in a file of nats-server: accounts, users and permissions, limits.
// Address and store stay as they are, and there is JetStream without a block that says so. A start with a text that the server does not understand fails.
func WithConfigText(text string) Option { return func(c *config) { c.configText = text } }
