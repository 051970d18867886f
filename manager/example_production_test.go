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
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

type websiteSpec struct {
	Title string `json:"title"`
}

type websiteStatus struct {
	Published bool `json:"published"`
}

type Website = entity.Object[websiteSpec, websiteStatus]

type websiteReconciler struct{ websites *entity.Client[*Website] }

func (r *websiteReconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	website, err := r.websites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil // gone: an error would keep its teardown from ever being over
	}
	if err != nil {
		return controller.Result{}, err
	}
	website.Status.Published = true
	return controller.Result{}, controller.SetStatus(ctx, website)
}

// address is where the example serves. In production it is "0.0.0.0:8080".
var address = "127.0.0.1:0"

var (
	only = flag.String("only", "", "permissions: print those of each role; buckets: make them; and exit")
	as   = flag.String("as", "controller", "user of the server, with the inbox prefix _INBOX_ and that name")
)

func run(ctx context.Context) error {
	m, err := manager.New(ctx, manager.Config{
		Name: "websites", Only: *only, WaitForServer: time.Minute, Events: &recorder.Config{},
		User: *as, Password: os.Getenv("PASSWORD"), InboxPrefix: "_INBOX_" + *as,
		Service:   service.For(service.Config{}),
		ServiceAs: manager.User{User: "service", Password: os.Getenv("SERVICE_PASSWORD")},
	})
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // after Run it does nothing
	websites, err := manager.Client[*Website](ctx, m,
		entity.Config{Kind: "Website", Bucket: "websites", BindOnly: true})
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

func main() {
	klog.InitFlags(nil) // -v=2 and the others of klog
	flag.Parse()
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := run(ctx); err != nil {
		klog.Exit(err)
	}
}

// The functions Reconcile, main and run are the main.go of a controller in production: metrics, probes, an entry in the
// registry of kinds, events, and a service that is asked over NATS. With -only=permissions it prints the permissions of
// each role, and with -only=buckets it makes the buckets, which run binds. Here run has a server of its own, without
// users, and somebody who puts a document.
func Example_production() {
	_ = main
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
	fmt.Println("buckets made, with error", makeBuckets(ctx))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()

	fmt.Println("reconciled, with error", publish(ctx, server.URL()))
	stop()
	fmt.Println("stopped, with error", <-ended)
	// Output:
	// buckets made, with error <nil>
	// reconciled, with error <nil>
	// stopped, with error <nil>
}

// makeBuckets is run with -only=buckets.
func makeBuckets(ctx context.Context) error {
	*only = manager.OnlyBuckets
	defer func() { *only = "" }()
	return run(ctx)
}

// publish puts a website and waits until it is published.
func publish(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	websites, err := entity.NewClient[*Website](ctx, js, entity.Config{Kind: "Website", Bucket: "websites"})
	if err != nil {
		return err
	}
	defer websites.Close()
	shop := &Website{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: websiteSpec{Title: "Shop"}}
	if err := websites.Create(ctx, shop); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return entity.WaitReconciled(ctx, websites, "shop", uint64(shop.Generation))
}
