// Shards runs four replicas of one controller, all at work, each at its share of the keys. Then one of them is cut off
// from the server, and its keys run elsewhere once its lease has ended; two more come, and take their share. Each step
// is checked: every order is charged by one replica, never by two at once, and none is forgotten.
//
//	go run ./examples/shards             # exit code 0, or 1 and the step that failed
//	go run ./examples/shards -log        # with the runtime's log
//
// To charge an order takes 50 ms, as a call of an API of another company might. So the first thing that it prints is how
// much four replicas are faster than one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

const (
	orders  = 400
	charges = 50 * time.Millisecond
)

// An Order is the user's document: the reconciler charges what it says.
type (
	OrderSpec struct {
		Amount int `json:"amount"`
	}
	Order = entity.Object[OrderSpec, struct{}]
)

func main() {
	verbose := flag.Bool("log", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// replica is one process, as far as the server can tell: it has a connection and caches of its own.
type replica struct {
	name  string
	nc    *nats.Conn
	ctl   *controller.Controller[*Order]
	stop  context.CancelFunc
	ended chan error
}

func run(ctx context.Context, out io.Writer) (err error) {
	server, err := natstest.New()
	if err != nil {
		return err
	}
	defer server.Close()
	s := &shop{url: server.URL(), running: map[string]string{}, charged: map[string]string{}}
	defer func() { err = errors.Join(err, s.close()) }()
	nc, err := nats.Connect(s.url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if s.orders, err = client(ctx, js); err != nil {
		return err
	}
	return s.scenario(ctx, out)
}

func client(ctx context.Context, js jetstream.JetStream) (*entity.Client[*Order], error) {
	return entity.NewClient[*Order](ctx, js, entity.Config{Kind: "Order", Bucket: "orders"})
}

// start runs one more replica.
func (s *shop) start(ctx context.Context, name string) error {
	nc, err := nats.Connect(s.url, nats.Name(name))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	mine, err := client(ctx, js)
	if err != nil {
		return err
	}
	r := &replica{name: name, nc: nc, ended: make(chan error, 1)}
	r.ctl, err = controller.New("shop", mine, s.reconciler(name),
		controller.WithShards(256), controller.WithMember(name, 1), controller.WithWorkers(4),
		controller.WithLeaseTiming(controller.LeaseTiming{
			Duration: 5 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
		}))
	if err != nil {
		return err
	}
	runs, stop := context.WithCancel(ctx)
	r.stop = stop
	go func() { r.ended <- r.ctl.Run(runs) }()
	s.replicas = append(s.replicas, r)
	return nil
}

// cutOff takes the connection of a replica away, as a crash does. It hands nothing over.
func (s *shop) cutOff(name string) error {
	i := slices.IndexFunc(s.replicas, func(r *replica) bool { return r.name == name })
	r := s.replicas[i]
	s.replicas = slices.Delete(s.replicas, i, i+1)
	r.nc.Close()
	r.stop()
	<-r.ended // it says that it is cut off
	return nil
}

func (s *shop) close() error {
	var all []error
	for _, r := range s.replicas {
		r.stop()
	}
	for _, r := range s.replicas {
		all = append(all, <-r.ended)
		r.nc.Close()
	}
	return errors.Join(all...)
}

// shares waits until the keys are shared by all replicas, and says how.
func (s *shop) shares(ctx context.Context) (string, error) {
	for {
		var says []string
		calm := true
		for _, r := range s.replicas {
			now := r.ctl.Stats().Shards
			calm = calm && len(now.Members) == len(s.replicas) && now.Unowned+now.Moving+now.Draining == 0 &&
				now.Open == now.Held
			says = append(says, fmt.Sprintf("%s has %d of %d slots", r.name, now.Held, now.Slots))
		}
		if calm {
			return strings.Join(says, ", "), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the slots are not shared: %s: %w", strings.Join(says, ", "), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
