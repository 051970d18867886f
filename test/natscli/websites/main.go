// Command websites is the main of a production controller, with what the walk configures as flags.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

type spec struct {
	Title string `json:"title"`
}

type status struct {
	Published bool `json:"published"`
}

type object = entity.Object[spec, status]

type reconciler struct{ websites, pages *entity.Client[*object] }

func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	website, err := r.websites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	page := &object{ObjectMeta: metav1.ObjectMeta{Name: website.Name}}
	if _, err := controller.CreateOrUpdate(ctx, r.pages, page, func(page *object) error {
		page.Spec.Title = website.Spec.Title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	website.Status.Published = true
	return controller.Result{}, controller.SetStatus(ctx, website)
}

var (
	only = flag.String("only", "", "permissions: print them; buckets: make them; and exit")
	url  = flag.String("url", "", "server")
	name = flag.String("name", "websites", "of the controller and of its bucket")
	last = flag.Int("last-document-limit", 0, "longest document in bytes that a record keeps; 0: the default")
	user = flag.String("user", "controller", "user, whose inbox prefix is _INBOX_ and the name")
)

func run(ctx context.Context) error {
	m, err := manager.New(ctx, manager.Config{
		Name: *name, URL: *url, User: *user, Password: "x", InboxPrefix: "_INBOX_" + *user,
		WaitForServer: time.Minute, Only: *only, Events: &recorder.Config{},
		Service: service.For(service.Config{}), ServiceAs: manager.User{User: "service", Password: "x"},
	})
	if err != nil {
		return err
	}
	defer m.Close(context.Background())
	bound := func(kind, bucket string) entity.Config {
		return entity.Config{Kind: kind, Bucket: bucket, BindOnly: true}
	}
	primaries := bound("Website", *name)
	primaries.LastDocumentLimit = *last
	websites, err := manager.Client[*object](ctx, m, primaries)
	if err != nil {
		return err
	}
	pages, err := manager.Client[*object](ctx, m, bound("Page", "pages"))
	if err != nil {
		return err
	}
	c, err := controller.New(*name, websites, &reconciler{websites, pages}, controller.Owns(pages),
		registry.Publish(registry.Options{}), m.Controller())
	if err != nil {
		return err
	}
	if err := m.Add(c); err != nil {
		return err
	}
	return m.Run(ctx)
}

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := run(ctx); err != nil {
		klog.Fatal(err)
	}
}
