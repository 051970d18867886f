package controller_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sites use a page as their frame. A page that changes wakes the sites that use it, and no others.
func ExampleWatchesIndexed() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	frame := entity.WithIndex("frame", func(s *Site) []string { return []string{s.Annotations["frame"]} })
	sites, err := entity.NewClient[*Site](ctx, js,
		entity.Config{Kind: "Site", Bucket: "sites", Indexes: []entity.Index{frame}})
	check(err)
	defer sites.Close()
	frames, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "frames"})
	check(err)
	defer frames.Close()
	for name, frame := range map[string]string{"home": "wide", "blog": "narrow"} {
		check(sites.Create(ctx, &Site{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"frame": frame}},
		}))
	}
	check(frames.Create(ctx, &Page{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}))
	reconciled := make(chan controller.Request, 10)
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		reconciled <- req
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.WatchesIndexed(frames, "frame"))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	<-reconciled
	<-reconciled
	check(frames.Patch(ctx, "wide", []byte(`{"spec":{"text":"new"}}`)))
	fmt.Println(<-reconciled)

	wide, err := sites.Lister().ByIndex("frame", "wide")
	check(err)
	fmt.Println(len(wide), "site uses it:", wide[0].Name)
	stop()
	check(<-done)
	// Output:
	// {home Tertiary}
	// 1 site uses it: home
}
