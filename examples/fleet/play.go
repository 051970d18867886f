package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/traces"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// play has two replicas, each behind a network that can be cut, and the customers, who have a connection of their own.
type play struct {
	replicas [2]*member
	tracer   *traces.Tracer
	shop     trace.Tracer // of the customers

	js        jetstream.JetStream
	orders    *entity.Client[*Order]
	workloads *entity.Client[*Workload]
	volumes   *entity.Client[*Volume]
	closers   []func()
}

// member is a replica that runs, has run, or will.
type member struct {
	name    string
	http    string // where it is to serve metrics and probes
	network *natstest.Proxy

	*replica
	address string // where it does serve them
	stop    context.CancelFunc
	ended   chan error // nil while it does not run
}

// newPlay makes all but the replicas, which the scenario starts.
func newPlay(ctx context.Context, url string, http [2]string, provider *sdktrace.TracerProvider) (p *play, err error) {
	// Only this program writes the documents, so a write may say that it is traced: the reconciles that it causes are
	// its children then, and the tree has one root.
	p = &play{tracer: traces.New(provider, traces.TrustHeaders()), shop: provider.Tracer("shop")}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for i, name := range []string{"a", "b"} {
		network, err := natstest.NewProxy(url)
		if err != nil {
			return p, err
		}
		p.closers = append(p.closers, network.Close)
		p.replicas[i] = &member{name: name, http: http[i], network: network}
	}
	nc, err := nats.Connect(url)
	if err != nil {
		return p, fmt.Errorf("connect to %s: %w", url, err)
	}
	p.closers = append(p.closers, nc.Close)
	if p.js, err = jetstream.New(nc); err != nil {
		return p, err
	}
	if p.orders, err = customers[*Order](ctx, p, "Order", "fleet-orders"); err != nil {
		return p, err
	}
	if p.workloads, err = customers[*Workload](ctx, p, "Workload", "fleet-workloads"); err != nil {
		return p, err
	}
	p.volumes, err = customers[*Volume](ctx, p, "Volume", "fleet-volumes")
	return p, err
}

// customers makes a client of those who order. Their writes carry a trace, if the context has one.
func customers[T entity.IEntity](ctx context.Context, p *play, kind, bucket string) (*entity.Client[T], error) {
	c, err := entity.NewClient[T](ctx, p.js, entity.Config{Kind: kind, Bucket: bucket, OnWrite: p.tracer.OnWrite})
	if err == nil {
		p.closers = append(p.closers, c.Close)
	}
	return c, err
}

// close stops the replicas that run, and gives all back.
func (p *play) close() error {
	var errs []error
	for _, m := range p.replicas {
		if m != nil && m.ended != nil {
			errs = append(errs, m.end())
		}
	}
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	return errors.Join(errs...)
}

// start runs a replica, and returns when it serves its probes.
func (p *play) start(ctx context.Context, m *member) (err error) {
	m.replica, err = newReplica(ctx, manager.Config{
		Name: "fleet", URL: m.network.URL(), Options: []nats.Option{nats.IgnoreDiscoveredServers()},
	}, p.tracer, m.http)
	if err != nil {
		return err
	}
	listening := make(chan net.Addr, 1)
	m.server.Listening = func(_ string, address net.Addr) { listening <- address }
	ctx, m.stop = context.WithCancel(ctx)
	m.ended = make(chan error, 1)
	go func() { m.ended <- m.Run(ctx) }()
	select {
	case address := <-listening:
		m.address = address.String()
		return nil
	case err := <-m.ended:
		m.ended = nil
		return errors.Join(errors.New("the replica ended before it served"), err)
	}
}

// end stops a replica as Kubernetes does: gracefully.
func (m *member) end() error {
	m.stop()
	err := <-m.ended
	m.ended = nil
	return err
}

// leads tells how many of the controllers of a replica lead.
func (m *member) leads() (n int) {
	if m.ended == nil {
		return 0
	}
	for _, stats := range []func() controller.Stats{m.orders.Stats, m.workloads.Stats, m.volumes.Stats} {
		if stats().Leading {
			n++
		}
	}
	return n
}

// patience is how long a step may take. A replica that is cut off is noticed after its lease.
const patience = time.Minute
