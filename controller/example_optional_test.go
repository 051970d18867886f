package controller_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A controller works without the store of an edge that is away, and hears when it comes.
func ExampleWithOptional() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	edge := entity.Config{Kind: "Page", Bucket: "pages-at-the-edge", BindOnly: true, OpenLater: true}
	pages, err := entity.NewClient[*Page](ctx, js, edge) // the bucket is not there
	check(err)
	defer pages.Close()

	told := make(chan string)
	reconcile := func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if !pages.Informer().HasSynced() {
			told <- req.Key + ": the edge is away"
			return controller.Result{}, nil // it is due again when the edge is there
		}
		told <- req.Key + ": the edge is there, " + req.Operations.String()
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.Owns(pages, controller.WithOptional()))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
	fmt.Println(<-told)
	for name := range c.Stats().Degraded {
		fmt.Println("degraded:", name)
	}
	edge.BindOnly = false
	comes, err := entity.NewClient[*Page](ctx, js, edge)
	check(err)
	defer comes.Close()
	fmt.Println(<-told)
	stop()
	check(<-done)
	// Output:
	// home: the edge is away
	// degraded: Owns Page (bucket pages-at-the-edge)
	// home: the edge is there, Secondary
}
