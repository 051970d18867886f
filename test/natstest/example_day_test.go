package natstest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

type websiteSpec struct {
	Title string `json:"title"`
}

type website = entity.Object[websiteSpec, entity.None]

// A controller works for a day, loses its server at noon for an hour, and is looked at by the hour. A day from nine to
// five takes some seconds.
func ExampleTest_aDay() {
	inATest(func(t *testing.T) { // in a test: natstest.Test(t, func(t *testing.T) {
		time.Sleep(9 * time.Hour) // it begins at midnight
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		client, err := entity.NewClient[*website](t.Context(), js, entity.Config{Kind: "Website", Bucket: "websites"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		var reconciled atomic.Int64
		c, err := controller.New("websites", client, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				reconciled.Add(1)
				return controller.Result{}, nil
			}), controller.WithResyncInterval(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		natstest.Run(t, c.Run)

		home := &website{Spec: websiteSpec{Title: "Home"}}
		home.SetName("home")
		if err := client.Create(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			switch time.Now().Hour() {
			case 12:
				srv.Stop()
			case 13:
				if err := srv.Start(); err != nil {
					t.Fatal(err)
				}
			}
			reconciled.Store(0)
			time.Sleep(time.Hour)
			fmt.Printf("%s reconciled %d times, degraded %d\n",
				time.Now().Format("15:04"), reconciled.Load(), len(c.Stats().Degraded))
		}
	})
	// Output:
	// 10:00 reconciled 2 times, degraded 0
	// 11:00 reconciled 1 times, degraded 0
	// 12:00 reconciled 1 times, degraded 0
	// 13:00 reconciled 0 times, degraded 1
	// 14:00 reconciled 2 times, degraded 0
	// 15:00 reconciled 1 times, degraded 0
	// 16:00 reconciled 1 times, degraded 0
	// 17:00 reconciled 1 times, degraded 0
}
