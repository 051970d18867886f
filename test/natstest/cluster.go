package natstest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
	"github.com/nats-io/nats-server/v2/server"
)

// clusterStart is how long a new cluster may take to become ready. Usually it takes a second or two.
const clusterStart = time.Minute

// Cluster is a JetStream cluster of embedded servers. Its members are numbered from 0, and named n0, n1 and so on.
// Its methods may be called by several goroutines at once. Streams and consumers are those of the default account.
type Cluster struct {
	servers   []*Server
	ports     []int // which it claimed
	closed    sync.Once
	jetStream bool
}

// NewCluster starts n servers, at least two, as one cluster, and returns when it is ready as by [Cluster.WaitReady].
// The options apply to each member. The caller must call Close. In a test, [StartCluster] does.
func NewCluster(n int, opts ...Option) (*Cluster, error) {
	const attempts = 5 // another program may take a random port between its choice and its use
	if n < 2 {
		return nil, fmt.Errorf("a cluster of %d: it takes at least 2 servers", n)
	}
	cfg := newConfig(opts)
	for attempt := 1; ; attempt++ {
		c, err := startCluster(n, cfg)
		if err == nil {
			return c, nil
		}
		if cfg.port != 0 || attempt == attempts || !errors.Is(err, errListen) {
			return nil, fmt.Errorf("start a cluster of %d: %w", n, err)
		}
	}
}

// StartCluster starts a cluster as [NewCluster] does, and closes it when the test and its subtests are complete.
func StartCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c, err := NewCluster(n, opts...)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func startCluster(n int, cfg config) (*Cluster, error) {
	c := &Cluster{jetStream: !cfg.noJetStream}
	clients, routes := make([]int, n), make([]int, n)
	if err := c.claim(routes); err != nil {
		return nil, err
	}
	if cfg.port != 0 {
		for i := range clients {
			clients[i] = cfg.port + i
		}
	} else if err := c.claim(clients); err != nil {
		return nil, err
	}
	for i := range n {
		s, err := prepare(fmt.Sprintf("n%d", i), memberConfig(cfg, i, clients[i], routes))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.servers = append(c.servers, s)
	}
	if err := c.each(func(s *Server) error { return s.Start() }); err != nil {
		c.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterStart)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// claim fills in free ports.
func (c *Cluster) claim(into []int) error {
	for i := range into {
		port, err := ports.Claim()
		if err != nil {
			c.Close()
			return err
		}
		into[i], c.ports = port, append(c.ports, port)
	}
	return nil
}

func memberConfig(cfg config, i, port int, routes []int) config {
	cfg.port = port
	if cfg.storeDir != "" {
		cfg.storeDir = filepath.Join(cfg.storeDir, fmt.Sprintf("n%d", i))
	}
	cluster := func(o *server.Options) {
		o.Cluster = server.ClusterOpts{
			Name: "natstest",
			Host: ports.Host,
			Port: routes[i],
			// One plain connection between two members: quicker to set up, and nothing on loopback needs more.
			PoolSize:    -1,
			Compression: server.CompressionOpts{Mode: server.CompressionOff},
			// Clients know only the addresses they were given, so they stay behind a proxy.
			NoAdvertise: true,
		}
		for _, port := range routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: ports.Address(port)})
		}
	}
	cfg.change = append([]func(*server.Options){cluster}, cfg.change...)
	return cfg
}

// Servers returns the members, running or not.
func (c *Cluster) Servers() []*Server { return append([]*Server(nil), c.servers...) }

// URLs returns the addresses of all members, separated by commas, as nats.Connect and [Connect] take them.
func (c *Cluster) URLs() string {
	urls := make([]string, len(c.servers))
	for i, s := range c.servers {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Stop stops member i and keeps its store. Streams that it led elect another leader.
func (c *Cluster) Stop(i int) { c.servers[i].Stop() }

// Start starts member i again on its port and store, and returns when clients can connect to it. It may then still be
// catching up: see [Cluster.WaitReady] and [Cluster.WaitStream].
func (c *Cluster) Start(i int) error { return c.servers[i].Start() }

// Close stops all members for good and removes their stores. Closing twice does nothing.
func (c *Cluster) Close() {
	_ = c.each(func(s *Server) error { s.Close(); return nil })
	c.closed.Do(func() { ports.Release(c.ports...) })
}

func (c *Cluster) each(do func(*Server) error) error {
	errs := make([]error, len(c.servers))
	var wg sync.WaitGroup
	for i, s := range c.servers {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// StreamLeader returns the member that leads stream, or -1 while none does.
func (c *Cluster) StreamLeader(stream string) int {
	return c.find(func(s *server.Server) bool {
		return s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
	})
}

// ConsumerLeader returns the member that leads consumer, or -1 while none does.
func (c *Cluster) ConsumerLeader(stream, consumer string) int {
	return c.find(func(s *server.Server) bool {
		return s.JetStreamIsConsumerLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream, consumer)
	})
}

// MetaLeader returns the member that leads the cluster's JetStream and decides where streams go, or -1 while none does.
func (c *Cluster) MetaLeader() int {
	return c.find((*server.Server).JetStreamIsLeader)
}

func (c *Cluster) find(is func(*server.Server) bool) int {
	for i, s := range c.servers {
		found := false
		s.ask(func(srv *server.Server) { found = is(srv) })
		if found {
			return i
		}
	}
	return -1
}

// StepDown makes the leader of stream hand over to another member. It returns when that is under way; StreamLeader
// and WaitStream tell when it is done.
func (c *Cluster) StepDown(stream string) error {
	return c.stepDown(c.StreamLeader(stream), "stream "+stream, func(s *server.Server) error {
		return s.JetStreamStepdownStream(server.DEFAULT_GLOBAL_ACCOUNT, stream)
	})
}

// StepDownConsumer makes the leader of consumer hand over to another member, as StepDown does for a stream.
func (c *Cluster) StepDownConsumer(stream, consumer string) error {
	return c.stepDown(c.ConsumerLeader(stream, consumer), "consumer "+stream+"/"+consumer,
		func(s *server.Server) error {
			return s.JetStreamStepdownConsumer(server.DEFAULT_GLOBAL_ACCOUNT, stream, consumer)
		})
}

func (c *Cluster) stepDown(leader int, what string, do func(*server.Server) error) error {
	err := errors.New("it has none, or does not exist in the default account")
	if leader >= 0 {
		c.servers[leader].ask(func(srv *server.Server) { err = do(srv) })
	}
	if err != nil {
		return fmt.Errorf("step down the leader of %s: %w", what, err)
	}
	return nil
}
