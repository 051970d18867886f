package controller_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A controller is not woken by labels that it does not read.
func ExampleGenerationChanged() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	titles := make(chan string)
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		site, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		titles <- fmt.Sprint(req.Operations, " ", site.Spec.Title, " ", site.Labels)
		return controller.Result{}, nil
	}
	published := controller.TypedObjectPredicate(func(s *Site) bool { return s.Spec.Title != "" })
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.WithEventFilter(controller.GenerationChanged()),
		controller.WithPrimary(controller.WithPredicate(published)))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	home := &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}, Spec: siteSpec{Title: "one"}}
	check(sites.Create(ctx, home))
	fmt.Println(<-titles)
	check(sites.Patch(ctx, "home", []byte(`{"metadata":{"labels":{"team":"web"}}}`)))
	check(sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
	fmt.Println(<-titles)
	stop()
	check(<-done)
	// Output:
	// Put one map[]
	// Put two map[team:web]
}
