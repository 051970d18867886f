package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shop is all that the replicas share, but for what is in NATS: who charges which order.
type shop struct {
	url      string
	orders   *entity.Client[*Order]
	replicas []*replica

	mu      sync.Mutex
	running map[string]string // by order: which replica charges it now
	charged map[string]string // by order: which replica charged it last since the step began
	wrong   []string
}

// reconciler is that of one replica.
func (s *shop) reconciler(name string) controller.Reconciler {
	return controller.ForObject(func(ctx context.Context, o *Order) (controller.Result, error) {
		s.begin(name, o.Name)
		defer s.end(name, o.Name)
		select {
		case <-time.After(charges):
			return controller.Result{}, nil
		case <-ctx.Done():
			return controller.Result{}, ctx.Err()
		}
	})
}

func (s *shop) begin(name, order string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.running[order]; other != "" {
		s.wrong = append(s.wrong, fmt.Sprintf("%s and %s charge %s at once", other, name, order))
	}
	s.running[order] = name
}

func (s *shop) end(name, order string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, order)
	s.charged[order] = name
}

func orderName(i int) string { return fmt.Sprintf("order-%03d", i) }

// chargeAll writes all orders, and waits until each is charged.
func (s *shop) chargeAll(ctx context.Context, amount int) (took time.Duration, err error) {
	s.mu.Lock()
	clear(s.charged)
	s.mu.Unlock()
	began := time.Now()
	for i := range orders {
		o := &Order{ObjectMeta: metav1.ObjectMeta{Name: orderName(i)}, Spec: OrderSpec{Amount: amount}}
		if amount == 1 {
			err = s.orders.Create(ctx, o)
		} else {
			err = s.orders.Patch(ctx, o.Name, fmt.Appendf(nil, `{"spec":{"amount":%d}}`, amount))
		}
		if err != nil {
			return 0, err
		}
	}
	err = s.awaitAll(ctx)
	return time.Since(began), err
}

func (s *shop) awaitAll(ctx context.Context) error {
	for {
		s.mu.Lock()
		n, wrong := len(s.charged), strings.Join(s.wrong, "; ")
		s.mu.Unlock()
		if wrong != "" {
			return fmt.Errorf("%s", wrong)
		}
		if n == orders {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d orders were charged: %w", n, orders, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// whose says which replica charged how many orders.
func (s *shop) whose() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, name := range s.charged {
		counts[name]++
	}
	var says []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		says = append(says, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(says, ", ")
}

// step is one of the scenario: what changes, and then all orders are charged.
type step struct {
	says   string
	change func(ctx context.Context) error
}

func (s *shop) scenario(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	starts := func(names ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, name := range names {
				if err := s.start(ctx, name); err != nil {
					return err
				}
			}
			return nil
		}
	}
	steps := []step{
		{"one replica", starts("a")},
		{"three more", starts("b", "c", "d")},
		{"b is cut off", func(context.Context) error { return s.cutOff("b") }},
		{"two come", starts("e", "f")},
	}
	fmt.Fprintf(out, "nagi shards: %d orders, each takes %v to charge, 4 workers a replica\n", orders, charges)
	for i, step := range steps {
		began := time.Now()
		if err := step.change(ctx); err != nil {
			return fmt.Errorf("step %q: %w", step.says, err)
		}
		shares, err := s.shares(ctx)
		if err != nil {
			return fmt.Errorf("step %q: %w", step.says, err)
		}
		moved := time.Since(began)
		took, err := s.chargeAll(ctx, i+1)
		if err != nil {
			return fmt.Errorf("step %q: %w", step.says, err)
		}
		fmt.Fprintf(out, "\n%s: shared after %v\n  %s\n  all are charged in %v: %s\n", step.says,
			moved.Round(10*time.Millisecond), shares, took.Round(10*time.Millisecond), s.whose())
	}
	fmt.Fprintf(out, "\n%d steps hold.\n", len(steps))
	return nil
}
