package controller_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	siteSpec struct {
		Title string `json:"title"`
	}
	siteStatus struct {
		Published bool `json:"published"`
	}
	pageSpec struct {
		Text string `json:"text"`
	}
	Site = entity.Object[siteSpec, siteStatus]
	Page = entity.Object[pageSpec, struct{}]
)

// connect starts a server for the example.
func connect() (jetstream.JetStream, func()) {
	server, err := natstest.New()
	check(err)
	nc, err := nats.Connect(server.URL())
	check(err)
	js, err := jetstream.New(nc)
	check(err)
	return js, func() {
		nc.Close()
		server.Close()
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A controller that gives each site a page, and takes it away with its site.
func Example() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	check(err)
	defer pages.Close()

	reconcile := func(ctx context.Context, req controller.Request) (controller.Result, error) {
		site, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil // gone: what it owned goes by itself
		}
		if err != nil {
			return controller.Result{}, err
		}
		page := &Page{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}
		if _, err := controller.CreateOrUpdate(ctx, pages, page, func(page *Page) error {
			page.Spec.Text = "Welcome to " + site.Spec.Title
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
		site.Status.Published = true
		return controller.Result{}, controller.SetStatus(ctx, site)
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile), controller.Owns(pages))
	check(err)
	stopped := make(chan error)
	go func() { stopped <- c.Run(ctx) }()

	site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}, Spec: siteSpec{Title: "Nagi"}}
	check(sites.Create(ctx, site))
	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	check(entity.WaitReconciled(patience, sites, "home", 1))
	page, err := pages.Get(ctx, "home")
	check(err)
	fmt.Println(page.Spec.Text)
	site, err = sites.Get(ctx, "home")
	check(err)
	fmt.Println("published:", site.Status.Published)

	stop()
	check(<-stopped)
	// Output:
	// Welcome to Nagi
	// published: true
}

// CreateOrUpdate writes nothing when nothing changes.
func ExampleCreateOrUpdate() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx := context.Background()
	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	check(err)
	defer pages.Close()

	for _, text := range []string{"one", "one", "two"} {
		page := &Page{ObjectMeta: metav1.ObjectMeta{Name: "home"}}
		result, err := controller.CreateOrUpdate(ctx, pages, page, func(page *Page) error {
			page.Spec.Text = text
			return nil
		})
		check(err)
		fmt.Println(result, "at revision", page.ResourceVersion)
	}
	// Output:
	// created at revision 1
	// unchanged at revision 1
	// updated at revision 2
}

func ExampleTerminalError() {
	err := controller.TerminalError(fmt.Errorf("spec.title: a site needs a title"))
	fmt.Println(err)
	// Output: terminal error: spec.title: a site needs a title
}

// Enqueue makes a key due, and the reconciler is told why.
func ExampleController_Enqueue() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))

	reasons := make(chan controller.Operations)
	reconcile := func(_ context.Context, req controller.Request) (controller.Result, error) {
		reasons <- req.Operations
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile), controller.WithResyncInterval(0))
	check(err)
	stopped := make(chan error)
	go func() { stopped <- c.Run(ctx) }()

	fmt.Println("at the start:", <-reasons)
	c.Enqueue("home", controller.OperationManual)
	fmt.Println("by hand:", <-reasons)

	stop()
	check(<-stopped)
	// Output:
	// at the start: Put
	// by hand: Manual
}

// SetStatus writes the status together with the outcome of the reconcile: one write for both.
func ExampleSetStatus() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	check(sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))

	reconcile := func(ctx context.Context, req controller.Request) (controller.Result, error) {
		site, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil // gone
		}
		if err != nil {
			return controller.Result{}, err
		}
		site.Status.Published = true
		return controller.Result{}, controller.SetStatus(ctx, site) // written when Reconcile returns
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile), controller.WithResyncInterval(0))
	check(err)
	stopped := make(chan error)
	go func() { stopped <- c.Run(ctx) }()

	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	check(entity.WaitReconciled(patience, sites, "home", 1))
	record, err := sites.Record(ctx, "home")
	check(err)
	fmt.Println("status:", string(record.Status))
	fmt.Println(record.Conditions[0].Type, record.Conditions[0].Status, record.Conditions[0].Reason)

	stop()
	check(<-stopped)
	// Output:
	// status: {"published":true}
	// Reconciled True Synced
}
