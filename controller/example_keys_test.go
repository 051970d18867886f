package controller_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A site is due when a message says that it was visited.
func ExampleWatchesSubject() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
	visited := func(_ context.Context, m *nats.Msg) ([]string, error) {
		return []string{strings.TrimPrefix(m.Subject, "visited.")}, nil
	}
	woken := make(chan string, 1)
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		if req.Operations.Has(controller.OperationTertiary) {
			select {
			case woken <- req.Key:
			default: // one is enough
			}
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile),
		controller.WatchesSubject(js.Conn(), "visited.*", visited))
	check(err)
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	for key := ""; key == ""; { // a message that comes before the controller listens is lost
		check(js.Conn().Publish("visited.home", nil))
		select {
		case key = <-woken:
			fmt.Println("visited:", key)
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	check(<-done)
	// Output: visited: home
}
