package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is one thing that somebody does, and what must be seen soon.
type step struct {
	name string
	do   func(ctx context.Context) error                    // nil: nobody does anything
	want func(ctx context.Context) (seen string, err error) // an error means: not yet
}

// scenario does the steps, and checks and prints each one. Then it deletes what it has made.
func (p *play) scenario(ctx context.Context, out io.Writer, t *terminal) error {
	began := time.Now()
	customers := fmt.Sprintf("order-%d", began.UnixMilli()) // another run on the same server has other orders
	first := &first{play: p, key: customers + "-first", terminal: t}
	many := &many{play: p, prefix: customers}
	steps := append(first.steps(), many.steps()...)
	for i, s := range steps {
		at := time.Now()
		if s.do != nil {
			if err := s.do(ctx); err != nil {
				return fmt.Errorf("step %q: %w", s.name, err)
			}
		}
		seen, err := until(ctx, s.want)
		if err != nil {
			return fmt.Errorf("step %q: this did not come within %v: %w", s.name, patience, err)
		}
		fmt.Fprintf(out, "%2d. %s  (%.0f ms)\n    %s\n", i+1, s.name, ms(time.Since(at)),
			strings.ReplaceAll(seen, "\n", "\n    "))
	}
	fmt.Fprintf(out, "\nAll %d steps hold, in %.1f s.\n", len(steps), time.Since(began).Seconds())
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		seen, err := want(ctx)
		if err == nil {
			return seen, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(last, ctx.Err())
		case <-tick.C:
		}
	}
}

// roles tells which replica leads all three controllers, and which one waits.
func (p *play) roles() (leader, standby *member, err error) {
	a, b := p.replicas[0], p.replicas[1]
	switch {
	case a.leads() == 3 && b.leads() == 0:
		return a, b, nil
	case b.leads() == 3 && a.leads() == 0:
		return b, a, nil
	}
	return nil, nil, fmt.Errorf("of three controllers, replica a leads %d and replica b %d", a.leads(), b.leads())
}

// create orders some workloads with volumes.
func (p *play) create(ctx context.Context, key string, workloads, volumes int) error {
	return p.orders.Create(ctx, &Order{
		ObjectMeta: metav1.ObjectMeta{Name: key},
		Spec:       OrderSpec{Workloads: workloads, Volumes: volumes, Gigabytes: 20},
	})
}

// done reads live whether an order says that it is done, and whether its volumes are there.
func (p *play) done(ctx context.Context, key string) (volumes int, err error) {
	order, err := p.orders.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if !order.Status.Done {
		return 0, fmt.Errorf("%d of %d workloads of order %s are ready", order.Status.Ready, order.Spec.Workloads, key)
	}
	for w := range order.Spec.Workloads {
		for v := range order.Spec.Volumes {
			volume, err := p.volumes.Get(ctx, fmt.Sprintf("%s-w%d-v%d", key, w, v))
			if err != nil {
				return 0, err
			}
			if !volume.Status.Done || volume.Spec.Gigabytes != order.Spec.Gigabytes {
				return 0, fmt.Errorf("volume %s is %+v %+v", volume.Name, volume.Spec, volume.Status)
			}
			volumes++
		}
	}
	return volumes, nil
}

// gone reads live whether nothing of an order is left: no order, no workload, no volume, and no record of any of them.
// A record that is left behind is a teardown that the next replica owes, as if nobody had deleted the document.
func (p *play) gone(ctx context.Context, key string) error {
	if err := left(ctx, p.orders, key); err != nil {
		return err
	}
	for w := range twoOfEach {
		workload := fmt.Sprintf("%s-w%d", key, w)
		if err := left(ctx, p.workloads, workload); err != nil {
			return err
		}
		for v := range twoOfEach {
			if err := left(ctx, p.volumes, fmt.Sprintf("%s-v%d", workload, v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// twoOfEach is how many workloads an order has here at most, and a workload volumes.
const twoOfEach = 2

// left returns an error if a key has a document or a record.
func left[T entity.IEntity](ctx context.Context, client *entity.Client[T], key string) error {
	_, document := client.Get(ctx, key)
	_, record := client.Record(ctx, key)
	for what, err := range map[string]error{"document": document, "record": record} {
		if err == nil {
			return fmt.Errorf("the %s of %s %s is still there", what, client.Kind(), key)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
