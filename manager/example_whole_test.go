package manager_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/klog/v2"
)

var only = flag.String("only", "", "permissions: print those of each role; buckets: make them; and exit")

func runWhole(ctx context.Context) error {
	m, err := manager.New(ctx, manager.Config{
		Name: "websites", InboxPrefix: "_INBOX_controller", WaitForServer: time.Minute, Only: *only,
		Events: &recorder.Config{}, Service: service.For(service.Config{}),
	})
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // after Run it does nothing
	websites, err := manager.Client[*Website](ctx, m, entity.Config{Kind: "Website", Bucket: "websites"})
	if err != nil {
		return err
	}
	seen, health := metrics.New(), probes.New()
	c, err := controller.New("websites", websites, &websiteReconciler{websites},
		m.Controller(), seen.Controller(), registry.Publish(registry.Options{}))
	if err != nil {
		return err
	}
	health.Add("websites", c)
	handlers := health.Handlers()
	handlers["/metrics"] = seen.Handler()
	if err := m.Add(c, &probes.Server{Address: address, Handlers: handlers}); err != nil {
		return err
	}
	return m.Run(ctx)
}

func mainWhole() {
	klog.InitFlags(nil) // -v=2 and the others of klog
	flag.Parse()
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := runWhole(ctx); err != nil {
		klog.Fatal(err)
	}
}

// The functions mainWhole and runWhole are the main.go of a controller with all that there is: metrics, probes, an entry
// in the registry, events, and a service that is asked over NATS. With -only=permissions it prints the permissions of
// each role, and with -only=buckets it makes the buckets. Where the server has users, Config.ServiceAs names that of the
// service.
func Example_whole() {
	_ = mainWhole
	server, err := natstest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	before := os.Getenv("NATS_URL")
	defer os.Setenv("NATS_URL", before)
	os.Setenv("NATS_URL", server.URL())
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	ended := make(chan error, 1)
	go func() { ended <- runWhole(ctx) }()

	fmt.Println("reconciled, with error", publish(ctx, server.URL()))
	stop()
	fmt.Println("stopped, with error", <-ended)
	// Output:
	// reconciled, with error <nil>
	// stopped, with error <nil>
}
