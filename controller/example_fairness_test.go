package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
)

// One tenant has a hundred sites, another one has one, which does not wait for the hundred. All together are reconciled
// no more than a thousand times a second.
func ExampleWithFairness() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true})
	check(err)
	defer sites.Close()
	for n := range 100 {
		check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "large", Name: fmt.Sprintf("site-%d", n)}}))
	}
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "small", Name: "home"}}))

	reconciled, before := make(chan int, 1), 0
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		if req.Key == "small/home" {
			reconciled <- before
		}
		before++
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.WithFairness(controller.ByNamespace),
		controller.WithRate(1000, 100))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	fmt.Println("among the first five:", <-reconciled < 5)
	stop()
	check(<-done)
	// Output: among the first five: true
}

// A migration touches all sites, behind what users change meanwhile. What it cannot finish at once it goes on with
// later, with the same priority.
func ExampleController_EnqueueWith() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	for _, name := range []string{"old", "urgent"} {
		check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	const migration = controller.PriorityBackground - 1
	told, busy := make(chan string), true
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		if !req.Operations.Has(controller.OperationManual) {
			return controller.Result{}, nil
		}
		told <- req.Key
		if busy && req.Key == "old" {
			busy = false
			return controller.Result{Priority: new(migration)}, errors.New("the database is busy")
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.WithBackoff(time.Millisecond, time.Second))
	check(err)
	c.EnqueueWith("old", controller.OperationManual, controller.EnqueueOptions{Priority: migration})
	c.EnqueueWith("urgent", controller.OperationManual, controller.EnqueueOptions{Priority: 100})
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	for range 3 {
		fmt.Println(<-told)
	}
	stop()
	check(<-done)
	// Output:
	// urgent
	// old
	// old
}

// A limiter of client-go's, as controller-runtime takes it, spaces the retries of a key that fails.
func ExampleWithRateLimiter() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
	tried := make(chan time.Time, 3)
	reconcile := func(context.Context, controller.Request) (controller.Result, error) {
		if tried <- time.Now(); len(tried) < 3 {
			return controller.Result{}, errors.New("not yet")
		}
		return controller.Result{}, nil
	}
	fastThenSlow := workqueue.NewTypedItemFastSlowRateLimiter[string](time.Millisecond, 100*time.Millisecond, 1)
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.WithRateLimiter(fastThenSlow))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	for len(tried) < 3 {
		time.Sleep(time.Millisecond)
	}
	<-tried
	second := <-tried
	fmt.Println("the third waits:", (<-tried).Sub(second) >= 100*time.Millisecond)
	stop()
	check(<-done)
	// Output: the third waits: true
}
