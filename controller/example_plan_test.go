package controller_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A document is suspended until its plan was looked at. nagi plan shows the same.
func ExampleController_Plan() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	check(err)
	defer pages.Close()
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(
		func(ctx context.Context, req controller.Request) (controller.Result, error) {
			index := &Page{ObjectMeta: metav1.ObjectMeta{Name: req.Key + "-index"}}
			_, err := controller.CreateOrUpdate(ctx, pages, index, func(*Page) error { return nil })
			return controller.Result{}, err
		}), controller.Owns(pages), controller.WithPlan())
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{
		Name: "home", Annotations: map[string]string{entity.SuspendAnnotation: "true"},
	}}))
	for c.Explain("home").State != controller.StateSuspended {
		time.Sleep(time.Millisecond)
	}

	plan, err := c.Plan(ctx, "home")
	check(err)
	for _, change := range plan.Changes {
		fmt.Println(change.Action, change.Kind, change.Key)
	}
	_, err = pages.Get(ctx, "home-index")
	fmt.Println(err)
	stop()
	check(<-done)
	// Output:
	// create Page home-index
	// Page "home-index" not found in bucket "pages"
}
