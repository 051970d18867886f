package registry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type websiteSpec struct {
	Pages int `json:"pages"`
}

type website = entity.Object[websiteSpec, struct{}]

// A controller publishes its kind, and a tool that knows nothing of it finds its documents.
func ExamplePublish() {
	server, err := natstest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	websites, err := entity.NewClient[*website](ctx, js, entity.Config{Kind: "Website", Bucket: "websites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer websites.Close()
	nothing := func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }
	c, err := controller.New("websites", websites, controller.ReconcilerFunc(nothing),
		registry.Publish(registry.Options{Version: "v1.0.0"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()

	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		kinds, err := registry.List(ctx, js)
		if err != nil {
			fmt.Println(err)
			break
		}
		if len(kinds.Entries) == 0 {
			continue
		}
		for _, kind := range kinds.Entries {
			fmt.Println(kind.Kind, "in bucket", kind.Bucket, "by", kind.Controllers[0].Name, kind.Controllers[0].Version)
		}
		break
	}
	cancel()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output: Website in bucket websites by websites v1.0.0
}
