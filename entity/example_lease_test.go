package entity_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseSpec says who holds a lease. How long it does is the TTL of the document.
type LeaseSpec struct {
	Holder string `json:"holder"`
}

// Lease is held by who has created it, and renews it before it ends.
type Lease = entity.Object[LeaseSpec, struct{}]

// member works only while it holds the lease.
type member struct {
	name   string
	leases *entity.Client[*Lease]
	ttl    time.Duration
}

// run waits for the lease and calls work whenever it has it, until the context ends. The context of work ends before
// another member can have the lease.
func (m *member) run(ctx context.Context, work func(ctx context.Context)) error {
	for ctx.Err() == nil {
		lease := &Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Spec: LeaseSpec{Holder: m.name}}
		until := time.Now().Add(m.ttl) // of before the write: the server counts from the write on
		err := m.leases.CreateWith(ctx, lease, entity.WithTTL(m.ttl))
		switch {
		case apierrors.IsAlreadyExists(err):
			err = entity.WaitDeleted(ctx, m.leases, "leader")
		case err == nil:
			m.hold(ctx, lease, until, work)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hold works, and renews the lease three times in its TTL, until that fails for so long that it may have ended.
func (m *member) hold(ctx context.Context, lease *Lease, until time.Time, work func(ctx context.Context)) {
	ctx, lost := context.WithCancel(ctx)
	defer lost()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx)
	}()
	ends := time.AfterFunc(time.Until(until), lost)
	defer ends.Stop()
	for {
		select {
		case <-time.After(m.ttl / 3):
		case <-ctx.Done():
			<-done
			return
		}
		until = time.Now().Add(m.ttl)
		err := m.leases.UpdateWith(ctx, lease, entity.WithTTL(m.ttl)) // at the revision that is ours, or not at all
		switch {
		case err == nil:
			ends.Reset(time.Until(until))
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			lost()
		}
	}
}

// A lease: one member holds it and renews it; when it dies, the TTL ends, and another one takes over.
func ExampleWithTTL_lease() {
	js, cleanup := exampleJetStream()
	defer cleanup()
	leases, err := entity.NewClient[*Lease](context.Background(), js, entity.Config{
		Kind: "Lease", Bucket: "leases", StatusBucket: "-",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer leases.Close()

	holds := make(chan string)
	start := func(name string) (dies context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		m := &member{name, leases, 2 * time.Second}
		go m.run(ctx, func(ctx context.Context) {
			holds <- name
			<-ctx.Done()
		})
		return cancel
	}
	dies := start("first")
	fmt.Println("held by the", <-holds)
	defer start("second")()

	time.Sleep(3 * time.Second) // more than the TTL: it is renewed
	lease, err := leases.Get(context.Background(), "leader")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("still held by the", lease.Spec.Holder)

	dies()
	fmt.Println("then by the", <-holds)
	// Output:
	// held by the first
	// still held by the first
	// then by the second
}
