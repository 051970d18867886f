package controller_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each of two replicas fills a cache of its own, and is told of the end of what is in it.
func ExampleWithoutLease() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	told := make(chan string)
	both := func() []string { return slices.Sorted(slices.Values([]string{<-told, <-told})) }
	var sites *entity.Client[*Site]
	done := make(chan error)
	for _, replica := range []string{"a", "b"} {
		var err error
		sites, err = entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
		check(err)
		defer sites.Close()
		cached := map[string]bool{} // one worker, so no lock
		fill := func(_ context.Context, req controller.Request) (controller.Result, error) {
			if gone := req.Operations.Has(controller.OperationDelete); gone == cached[req.Key] {
				cached[req.Key] = !gone
				told <- fmt.Sprintf("%s caches %s: %v", replica, req.Key, !gone)
			}
			return controller.Result{}, nil
		}
		c, err := controller.New("caches", sites, controller.ReconcilerFunc(fill), controller.WithoutLease())
		check(err)
		go func() { done <- c.Run(ctx) }()
	}
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
	fmt.Println(both())
	check(sites.Delete(ctx, "home"))
	fmt.Println(both())
	stop()
	check(<-done)
	check(<-done)
	// Output:
	// [a caches home: true b caches home: true]
	// [a caches home: false b caches home: false]
}
