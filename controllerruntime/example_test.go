package controllerruntime_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
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
	free = *entity.None // fills a slot that is not used
)

// siteController gives each site a page. It inherits everything but SyncHandler.
type siteController struct {
	*controllerruntime.ControllerRuntime[*Site, *Page, free, free, free, free, free, free, free]
	sites *entity.Client[*Site]
	pages *entity.Client[*Page]
}

func (c *siteController) SyncHandler(key string) error {
	ctx := c.Context(key)
	site, err := c.sites.Lister().Get(key)
	if apierrors.IsNotFound(err) {
		err := c.pages.Delete(ctx, key) // there is no automatic cascade
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	page := &Page{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}
	if _, err := controller.CreateOrUpdate(ctx, c.pages, page, func(page *Page) error {
		page.Spec.Text = "Welcome to " + site.Spec.Title
		return nil
	}); err != nil {
		return err
	}
	site.Status.Published = true
	return controller.SetStatus(ctx, site)
}

// A controller in the Kumori style: it embeds the runtime and writes SyncHandler.
func Example() {
	server, err := natstest.New()
	check(err)
	defer server.Close()
	nc, err := nats.Connect(server.URL())
	check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c := &siteController{}
	c.sites, err = entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer c.sites.Close()
	c.pages, err = entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	check(err)
	defer c.pages.Close()
	c.ControllerRuntime = controllerruntime.NewControllerRuntime[*Site, *Page, free, free, free, free, free, free,
		free](
		"sites", "Site",
		nil,      // a Kubernetes clientset, for events about Kubernetes objects
		c.sites,  // the primary
		nil, nil, // informers of Kubernetes secondaries, and tertiaries
		c.pages, nil, nil, nil, // secondaries in NATS
		nil, nil, nil, nil, // tertiaries in NATS
		nil, // external clients
		time.Minute,
	)
	c.SetCustomController(c)
	stopCh, errCh, stopped := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(stopped)
		c.Run(2, stopCh, errCh)
	}()

	check(c.sites.Create(ctx, &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}, Spec: siteSpec{Title: "Nagi"}}))
	check(entity.WaitReconciled(ctx, c.sites, "home", 1))
	page, err := c.pages.Get(ctx, "home")
	check(err)
	fmt.Println(page.Spec.Text)
	site, err := c.sites.Get(ctx, "home")
	check(err)
	fmt.Println("published:", site.Status.Published)

	close(stopCh)
	<-stopped
	// Output:
	// Welcome to Nagi
	// published: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
