package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/probes"
)

// many are orders that come in while the leader goes.
type many struct {
	*play
	prefix string
	keys   []string
	gone   *member // the replica that was stopped or cut off
}

func (m *many) steps() []step {
	return []step{{
		name: "The replica that leads is stopped. Orders come in all the while",
		do:   func(ctx context.Context) error { return m.while(ctx, func(r *member) error { return r.end() }) },
		want: m.otherWorks,
	}, {
		name: "It starts again",
		do:   func(ctx context.Context) error { return m.start(ctx, m.gone) },
		want: m.waits,
	}, {
		name: "The network of the replica that leads is cut. Orders come in all the while",
		do: func(ctx context.Context) error {
			return m.while(ctx, func(r *member) error { r.network.Refuse(); return nil })
		},
		want: m.otherWorks,
	}, {
		name: "The replica that is cut off is asked how it is",
		want: m.notReadyButAlive,
	}, {
		name: "The network is back",
		do:   func(context.Context) error { m.gone.network.Resume(); return nil },
		want: m.waits,
	}, {
		name: "All orders are deleted",
		do: func(ctx context.Context) error {
			var errs []error
			for _, key := range m.keys {
				errs = append(errs, m.orders.Delete(ctx, key))
			}
			return errors.Join(errs...)
		},
		want: func(ctx context.Context) (string, error) {
			for _, key := range m.keys {
				if err := m.play.gone(ctx, key); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("Of %d orders nothing is left: no workloads, no volumes, no records.", len(m.keys)), nil
		},
	}}
}

// while puts orders before, while and after something happens to the replica that leads.
func (m *many) while(ctx context.Context, happens func(leader *member) error) error {
	var leader *member
	_, err := until(ctx, func(context.Context) (_ string, err error) {
		leader, _, err = m.roles()
		return "", err
	})
	if err != nil {
		return err
	}
	m.gone = leader
	const orders = 20
	var happened chan error // nil until it happens
	for i := range orders {
		if i == orders/4 {
			happened = make(chan error, 1)
			go func() { happened <- happens(leader) }()
		}
		key := fmt.Sprintf("%s-%d", m.prefix, len(m.keys))
		if err := m.create(ctx, key, 2, 2); err != nil {
			if happened != nil {
				err = errors.Join(err, <-happened)
			}
			return err
		}
		m.keys = append(m.keys, key)
	}
	return <-happened
}

// otherWorks: the other replica leads, and all volumes of all orders are there.
func (m *many) otherWorks(ctx context.Context) (string, error) {
	leader, _, err := m.roles()
	if err != nil {
		return "", err
	}
	if leader == m.gone {
		return "", fmt.Errorf("replica %s still leads", leader.name)
	}
	all := 0
	for _, key := range m.keys {
		volumes, err := m.done(ctx, key)
		if err != nil {
			return "", err
		}
		all += volumes
	}
	return fmt.Sprintf("Replica %s leads, and the %d volumes of %d orders are there.",
		leader.name, all, len(m.keys)), nil
}

// waits: the replica that was gone waits for the lease, and is ready to take over.
func (m *many) waits(ctx context.Context) (string, error) {
	leader, standby, err := m.roles()
	if err != nil {
		return "", err
	}
	if standby != m.gone {
		return "", fmt.Errorf("replica %s leads", m.gone.name)
	}
	if err := errors.Join(leader.well(ctx, "/readyz"), standby.well(ctx, "/readyz")); err != nil {
		return "", err
	}
	explained := standby.replica.orders.Explain(m.keys[0])
	if explained.State != controller.StateStandby {
		return "", fmt.Errorf("replica %s explains an order as %s: %s", standby.name, explained.State, explained.Says)
	}
	return fmt.Sprintf("Replica %s leads, replica %s waits for the lease; /readyz of both says ok.",
		leader.name, standby.name), nil
}

// notReadyButAlive: a replica that is cut off says why it is not ready, and that it need not be started again.
func (m *many) notReadyButAlive(ctx context.Context) (string, error) {
	answer, err := m.gone.probe(ctx, "/readyz")
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(answer.Problems, func(p probes.Problem) bool { return p.What == "connection to NATS" })
	if answer.OK || i < 0 {
		return "", fmt.Errorf("/readyz says ok=%t, and %+v", answer.OK, answer.Problems)
	}
	if err := m.gone.well(ctx, "/healthz"); err != nil {
		return "", err
	}
	problem := answer.Problems[i]
	return fmt.Sprintf("/readyz gives %d reasons. One is, of controller %s and its %s:\n  %s\n"+
		"/healthz says ok: to start the replica again would mend nothing.",
		len(answer.Problems), problem.Controller, problem.What, problem.Reason), nil
}
