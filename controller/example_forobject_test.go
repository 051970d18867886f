package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Most reconcilers begin by reading the object. This one is given it, and says of each error what becomes of it.
func ExampleForObject() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	told := make(chan string)
	errNoTitle, busy := errors.New("a site needs a title"), true
	reconcile := func(_ context.Context, site *Site) (controller.Result, error) {
		if site.Spec.Title == "" {
			return controller.Result{}, errNoTitle
		}
		if busy {
			busy = false
			return controller.Result{}, errors.New("the publisher is busy")
		}
		told <- "published " + site.Spec.Title
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ForObject(reconcile).
		WhenDeleted(func(_ context.Context, last *Site) (controller.Result, error) {
			told <- "withdrawn " + last.Spec.Title
			return controller.Result{}, nil
		}).
		OnError(func(_ context.Context, site *Site, err error) error {
			told <- fmt.Sprint(site.Name, ": ", err)
			if errors.Is(err, errNoTitle) {
				return controller.TerminalError(err) // until the document changes
			}
			return controller.RetryAfter(err, 10*time.Millisecond)
		}))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
	fmt.Println(<-told)
	check(sites.Patch(ctx, "home", []byte(`{"spec":{"title":"one"}}`)))
	fmt.Println(<-told)
	fmt.Println(<-told)
	check(sites.Delete(ctx, "home"))
	fmt.Println(<-told)
	stop()
	check(<-done)
	// Output:
	// home: a site needs a title
	// home: the publisher is busy
	// published one
	// withdrawn one
}
