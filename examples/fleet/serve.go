package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// serve shows each trace that has ended, until the context does.
func (p *play) serve(ctx context.Context, out io.Writer, t *terminal, url string) error {
	fmt.Fprintf(out, `
Serving. In another terminal:

  nats -s %[1]s kv put fleet-orders mine '{"spec":{"workloads":2,"volumes":1,"gigabytes":20}}'
  nats -s %[1]s kv get fleet-orders-status mine
  nats -s %[1]s kv get nagi-kinds Order
  curl http://%[2]s/readyz http://%[3]s/readyz
  curl http://%[2]s/metrics

Interrupt to stop.
`, url, p.replicas[0].address, p.replicas[1].address)
	t.quiet(0) // those of the scenario
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, shown := range t.quiet(500 * time.Millisecond) {
			fmt.Fprintf(out, "\n%s\n", shown)
		}
	}
}
