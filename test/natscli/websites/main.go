// Command websites is the main of a production controller, with what the walk configures as flags.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
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
	Domain string `json:"domain"`
	Pages  int    `json:"pages"`
	Title  string `json:"title"`
}

type status struct {
	Ready bool `json:"ready"`
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
	if website.Spec.Domain == "nowhere" {
		return controller.Result{}, controller.TerminalError(errors.New("no such domain"))
	}
	page := &object{ObjectMeta: metav1.ObjectMeta{Name: website.Name, Namespace: website.Namespace}}
	if _, err := controller.CreateOrUpdate(ctx, r.pages, page, func(page *object) error {
		page.Spec.Title = website.Spec.Title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	website.Status.Ready = true
	return controller.Result{}, controller.SetStatus(ctx, website)
}

// The first two are the flags of docs/production.md. The others are what the pages call differently.
var (
	only       = flag.String("only", "", "permissions: print those of each role; buckets: make them; and exit")
	as         = flag.String("as", "controller", "user of the server, with the inbox prefix _INBOX_ and that name")
	kind       = flag.String("kind", "Website", "kind of the primaries")
	apiVersion = flag.String("api-version", "", "that of the primaries")
	bucket     = flag.String("bucket", "websites", "their bucket, and the name of program and controller")
	namespaced = flag.Bool("namespaced", false, "keys have a namespace")
	last       = flag.Int("last-document-limit", 0, "longest document in bytes that a record keeps; 0: the default")
	bare       = flag.Bool("bare", false, "without service, events and registry")
)

func run(ctx context.Context) error {
	cfg := manager.Config{
		Name: *bucket, Only: *only, WaitForServer: time.Minute,
		User: *as, Password: os.Getenv("PASSWORD"), InboxPrefix: "_INBOX_" + *as,
	}
	if !*bare {
		cfg.Events, cfg.Service = &recorder.Config{}, service.For(service.Config{})
		cfg.ServiceAs = manager.User{User: "service", Password: os.Getenv("SERVICE_PASSWORD")}
	}
	m, err := manager.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer m.Close(context.Background())
	bound := func(kind, apiVersion, bucket string) entity.Config {
		return entity.Config{
			Kind: kind, APIVersion: apiVersion, Bucket: bucket, Namespaced: *namespaced, BindOnly: true,
		}
	}
	primaries := bound(*kind, *apiVersion, *bucket)
	primaries.LastDocumentLimit = *last
	websites, err := manager.Client[*object](ctx, m, primaries)
	if err != nil {
		return err
	}
	pages, err := manager.Client[*object](ctx, m, bound("Page", "", "pages"))
	if err != nil {
		return err
	}
	options := []controller.Option{controller.Owns(pages), m.Controller()}
	if !*bare {
		options = append(options, registry.Publish(registry.Options{}))
	}
	c, err := controller.New(*bucket, websites, &reconciler{websites, pages}, options...)
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
		klog.Exit(err)
	}
}
