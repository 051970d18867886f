package controller_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An edge joins while the controller runs, and leaves again. With clusters of Kubernetes it is the same: each has an
// informer of its own.
func ExampleController_AddSource() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	told := make(chan string, 10)
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		told <- req.Key + ": " + req.Operations.String()
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
	fmt.Println(<-told)

	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages-at-the-edge"})
	check(err)
	defer pages.Close()
	edge, err := c.AddSource(ctx, controller.Owns(pages))
	check(err)
	check(edge.WaitSynced(ctx))
	fmt.Println(<-told)
	fmt.Println("added:", edge)

	check(edge.Remove(ctx))
	fmt.Println("sources left:", len(c.Stats().Sources))
	stop()
	check(<-done)
	// Output:
	// home: Put
	// home: Secondary
	// added: Owns Page (bucket pages-at-the-edge)
	// sources left: 2
}
