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
// to date with it, have settled who is a member, and are known to it as places for streams. Then a stream with one
// replica on each running member can be created at once. If ctx ends before, the error says what is missing.
func (c *Cluster) WaitReady(ctx context.Context) error {
	return poll(ctx, "cluster is not ready", c.notReady)
}

// WaitStream returns when the cluster is ready, stream has a leader, and each of its replicas on a running member is
// up to date. If ctx ends before, the error says what is missing.
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

// member is what a running member knows about itself and the others.
type member struct {
	name    string
	routes  int
	leader  bool
	current bool
	meta    server.RaftzGroup // its place in the group that keeps the cluster's JetStream configuration
	places  []string          // for streams, as the leader sees them
	stream  bool              // it has no replica of the stream that was asked for, or an up-to-date one
	place   bool              // it has a replica of that stream
	last    uint64            // the last sequence of that replica
}

func (c *Cluster) members(stream string) []member {
	var members []member
	for _, s := range c.servers {
		s.ask(func(srv *server.Server) {
			m := member{
				name: s.name, routes: srv.NumRoutes(),
				leader: srv.JetStreamIsLeader(), current: srv.JetStreamIsCurrent(),
			}
			m.meta = metaGroup(srv)
			if m.leader {
				m.places = srv.JetStreamClusterPeers()
			}
			const account = server.DEFAULT_GLOBAL_ACCOUNT
			m.place = srv.JetStreamIsStreamAssigned(account, stream)
			m.stream = !m.place || srv.JetStreamIsStreamCurrent(account, stream)
			m.last = lastSequence(srv, account, stream)
			members = append(members, m)
		})
	}
	return members
}

func lastSequence(srv *server.Server, account, stream string) uint64 {
	detail, err := srv.JszAccount(&server.JSzOptions{Account: account, Streams: true})
	if err != nil {
		return 0 // it has no stream at all
	}
	for _, s := range detail.Streams {
		if s.Name == stream {
			return s.State.LastSeq
		}
	}
	return 0
}

func metaGroup(srv *server.Server) server.RaftzGroup {
	const name = "_meta_"
	if status := srv.Raftz(&server.RaftzOptions{GroupFilter: name}); status != nil {
		for _, groups := range *status {
			return groups[name]
		}
	}
	return server.RaftzGroup{}
}

func (c *Cluster) notReady() error { return c.missing(c.members("")) }

func (c *Cluster) missing(members []member) error {
	var leaders []member
	for _, m := range members {
		if want := len(members) - 1; m.routes < want {
			return fmt.Errorf("%s is connected to %d of %d others", m.name, m.routes, want)
		}
		if c.jetStream && !m.current {
			return fmt.Errorf("%s is not up to date with the JetStream leader", m.name)
		}
		if m.leader {
			leaders = append(leaders, m)
		}
	}
	if !c.jetStream {
		return nil
	}
	if len(leaders) != 1 {
		return fmt.Errorf("%d JetStream leaders among %d running members", len(leaders), len(members))
	}
	for _, m := range members {
		if !slices.Contains(leaders[0].places, m.name) {
			return fmt.Errorf("the JetStream leader has not heard from %s", m.name)
		}
		if err := c.unsettled(m, leaders[0]); err != nil {
			return err
		}
	}
	return nil
}

// unsettled tells what a member has not yet committed and applied of the leader's log. The leader of a new cluster
// adds the others by entries of that log. If two members stop before such an entry is committed everywhere,
// nats-server 2.15.2 can fail to elect a leader for ever: the member that has the entry may not stand, because the
// entry is about itself, and it grants no vote to a member that lacks the entry.
func (c *Cluster) unsettled(m, leader member) error {
	if known, want := len(m.meta.Peers), len(c.servers)-1; known < want {
		return fmt.Errorf("%s counts %d of %d others as members", m.name, known, want)
	}
	if want := leader.meta.PIndex; m.meta.Applied != want || m.meta.PIndex != want {
		return fmt.Errorf("%s has applied entry %d and stored %d of the JetStream leader's %d",
			m.name, m.meta.Applied, m.meta.PIndex, want)
	}
	return nil
}

func (c *Cluster) streamNotReady(stream string) error {
	members := c.members(stream)
	// A member that is behind does not know yet of which streams it has replicas.
	if err := c.missing(members); err != nil {
		return err
	}
	leader := c.StreamLeader(stream)
	if leader < 0 {
		return errors.New("it has no leader")
	}
	// A replica that has not heard of messages that the leader restored takes itself for up to date.
	var want uint64
	c.servers[leader].ask(func(srv *server.Server) { want = lastSequence(srv, server.DEFAULT_GLOBAL_ACCOUNT, stream) })
	for _, m := range c.members(stream) {
		if !m.stream || m.place && m.last < want {
			return fmt.Errorf("its replica on %s is not up to date", m.name)
		}
	}
	return nil
}
