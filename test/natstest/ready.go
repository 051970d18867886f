package natstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// WaitReady returns when the running members are all connected to each other, have elected a JetStream leader, are up
// to date with it, and are known by it as places for streams. Then a stream with as many replicas as there are running
// members can be created at once. If that does not happen before ctx ends, the error says what is missing.
func (c *Cluster) WaitReady(ctx context.Context) error {
	return poll(ctx, "cluster is not ready", c.notReady)
}

// WaitStream returns when the cluster is ready, stream has a leader, and every replica of it on a running member is up to date. If that does not
// happen before ctx ends, the error says what is missing.
func (c *Cluster) WaitStream(ctx context.Context, stream string) error {
	return poll(ctx, "stream "+stream+" is not ready", func() error { return c.streamNotReady(stream) })
}

func poll(ctx context.Context, what string, missing func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := missing()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// running are the members that run now, by name.
func (c *Cluster) running() map[string]*server.Server {
	running := map[string]*server.Server{}
	for _, s := range c.servers {
		if srv := s.Server(); srv != nil {
			running[s.name] = srv
		}
	}
	return running
}

func (c *Cluster) notReady() error {
	running := c.running()
	for name, srv := range running {
		if got, want := srv.NumRoutes(), len(running)-1; got < want {
			return fmt.Errorf("%s is connected to %d of %d others", name, got, want)
		}
	}
	if !c.jetStream {
		return nil
	}
	var places []string
	leaders := 0
	for name, srv := range running {
		if !srv.JetStreamIsCurrent() {
			return fmt.Errorf("%s is not up to date with the JetStream leader", name)
		}
		if srv.JetStreamIsLeader() {
			leaders++
			places = srv.JetStreamClusterPeers()
		}
	}
	if leaders != 1 {
		return fmt.Errorf("%d JetStream leaders among %d running members", leaders, len(running))
	}
	for name := range running {
		if !slices.Contains(places, name) {
			return fmt.Errorf("the JetStream leader has not heard from %s", name)
		}
	}
	return nil
}

func (c *Cluster) streamNotReady(stream string) error {
	if err := c.notReady(); err != nil { // a member that is behind does not know yet what it has replicas of
		return err
	}
	if c.StreamLeader(stream) < 0 {
		return errors.New("it has no leader")
	}
	const account = server.DEFAULT_GLOBAL_ACCOUNT
	for name, srv := range c.running() {
		if srv.JetStreamIsStreamAssigned(account, stream) && !srv.JetStreamIsStreamCurrent(account, stream) {
			return fmt.Errorf("its replica on %s is not up to date", name)
		}
	}
	return nil
}
