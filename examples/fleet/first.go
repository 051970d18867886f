package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/registry"
	"go.opentelemetry.io/otel/trace"
)

// first is one order, followed through everything that an operator sees.
type first struct {
	*play
	key      string
	terminal *terminal
	trace    trace.TraceID
}

func (f *first) steps() []step {
	return []step{{
		name: "Two replicas start",
		do: func(ctx context.Context) error {
			return errors.Join(f.start(ctx, f.replicas[0]), f.start(ctx, f.replicas[1]))
		},
		want: func(ctx context.Context) (string, error) {
			leader, standby, err := f.roles()
			if err != nil {
				return "", err
			}
			err = errors.Join(leader.well(ctx, "/readyz"), standby.well(ctx, "/readyz"), leader.well(ctx, "/healthz"))
			return fmt.Sprintf("Replica %s leads all three controllers, replica %s waits for the lease; "+
				"/readyz of both says ok.", leader.name, standby.name), err
		},
	}, {
		name: "A customer orders two workloads with one volume each",
		do: func(ctx context.Context) error {
			ctx, span := f.shop.Start(ctx, "a customer orders")
			defer span.End()
			f.trace = span.SpanContext().TraceID()
			return f.create(ctx, f.key, 2, 1)
		},
		want: func(ctx context.Context) (string, error) {
			volumes, err := f.done(ctx, f.key)
			return fmt.Sprintf("%d volumes are there.", volumes), err
		},
	}, {
		name: "What did that order cause? Its trace",
		want: func(context.Context) (string, error) { return f.terminal.tree(f.trace, "Order", "Workload", "Volume") },
	}, {
		name: "What do the replicas show to Prometheus?",
		want: f.scraped,
	}, {
		name: "What kinds are there? The bucket " + registry.Bucket,
		want: f.registered,
	}, {
		name: "A customer wants too much",
		do:   func(ctx context.Context) error { return f.create(ctx, f.key+"-large", 99, 1) },
		want: f.explained,
	}, {
		name: "Both orders are deleted",
		do: func(ctx context.Context) error {
			return errors.Join(f.orders.Delete(ctx, f.key), f.orders.Delete(ctx, f.key+"-large"))
		},
		want: func(ctx context.Context) (string, error) {
			return "Nothing of them is left.", errors.Join(f.gone(ctx, f.key), f.gone(ctx, f.key+"-large"))
		},
	}}
}

// scraped: both replicas have series of all three controllers, and say who leads.
func (f *first) scraped(ctx context.Context) (string, error) {
	leader, standby, err := f.roles()
	if err != nil {
		return "", err
	}
	var shown []string
	for _, m := range []*member{leader, standby} {
		series, err := m.scrape(ctx)
		if err != nil {
			return "", err
		}
		leads := series.sum("leader_election_master_status")
		reconciles := series.sum("controller_runtime_reconcile_total")
		if m == leader && (leads != 3 || reconciles < 5) || m == standby && leads != 0 {
			return "", fmt.Errorf("replica %s shows that it leads %v controllers, and %v reconciles",
				m.name, leads, reconciles)
		}
		shown = append(shown, fmt.Sprintf("replica %s shows %d series; it leads %v controllers, with %v reconciles",
			m.name, len(series), leads, reconciles))
	}
	return "/metrics: " + strings.Join(shown, ";\n") + ".", nil
}

// registered: the registry has the three kinds, each with its schema and its controller.
func (f *first) registered(ctx context.Context) (string, error) {
	kinds, err := registry.List(ctx, f.js)
	if err != nil {
		return "", err
	}
	var shown []string
	for _, entry := range kinds.Entries {
		if !strings.HasPrefix(entry.Bucket, "fleet-") {
			continue // on your own server there may be others
		}
		if len(entry.Schema) == 0 || len(entry.Controllers) != 1 {
			return "", fmt.Errorf("%s has a schema of %d bytes and %d controllers",
				entry.Kind, len(entry.Schema), len(entry.Controllers))
		}
		shown = append(shown, fmt.Sprintf("%s in bucket %s, by controller %s %s",
			entry.Kind, entry.Bucket, entry.Controllers[0].Name, entry.Controllers[0].Version))
	}
	if len(shown) != 3 {
		return "", fmt.Errorf("the registry has %d kinds of the fleet: %v", len(shown), shown)
	}
	return strings.Join(shown, ";\n") + ".", nil
}

// explained: the order that is too large is parked, and the controller says why.
func (f *first) explained(context.Context) (string, error) {
	leader, _, err := f.roles()
	if err != nil {
		return "", err
	}
	large, small := leader.replica.orders.Explain(f.key+"-large"), leader.replica.orders.Explain(f.key)
	if large.State != controller.StateParked || small.State != controller.StateCalm {
		return "", fmt.Errorf("it is %s, and the other order %s", large.State, small.State)
	}
	return fmt.Sprintf("Explain says of it: %s\nand of the other one: %s (reconciled at revision %d, in %v)",
		large.Says, small.Says, small.ReconciledRevision, small.Took.Round(time.Microsecond)), nil
}
