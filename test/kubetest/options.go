package kubetest

// Option changes how a server is started.
type Option func(*config)

type config struct {
	port int
	args []string
}

func newConfig(opts []Option) config {
	var cfg config
	for _, opt := range opts {
		opt(&cfg)
	}
	return cfg
}

// WithPort makes the server listen on this loopback port instead of a random one.
func WithPort(port int) Option {
	return func(c *config) { c.port = port }
}

// WithArgs gives flags to kube-apiserver, "--name=value" each. They come after kubetest's own; for most flags the last
// value counts.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}
