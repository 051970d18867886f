package manager_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

type siteSpec struct {
	Domain string `json:"domain"`
}

type siteStatus struct {
	Ready bool `json:"ready"`
}

// Site is the kind of this example.
type Site = entity.Object[siteSpec, siteStatus]

type reconciler struct{ sites *entity.Client[*Site] }

func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	site, err := r.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil // gone
	}
	if err != nil {
		return controller.Result{}, err
	}
	site.Status.Ready = true
	return controller.Result{}, controller.SetStatus(ctx, site)
}

// The main of a production controller. It connects where NATS_URL or a context of the nats command line says, waits a
// minute for the server, and stops gracefully with SIGINT or SIGTERM.
func ExampleManager_Run() {
	run := func(ctx context.Context) error {
		m, err := manager.New(ctx, manager.Config{Name: "sites", WaitForServer: time.Minute})
		if err != nil {
			return err
		}
		defer m.Close(context.Background()) // after Run it does nothing
		sites, err := manager.Client[*Site](ctx, m, entity.Config{Kind: "Site", Bucket: "sites"})
		if err != nil {
			return err
		}
		c, err := controller.New("sites", sites, &reconciler{sites}, controller.WithWorkers(8))
		if err := errors.Join(err, m.Add(c)); err != nil {
			return err
		}
		return m.Run(ctx)
	}
	main := func() {
		ctx, cancel := controller.SignalContext(context.Background())
		defer cancel()
		if err := run(ctx); err != nil {
			klog.Fatal(err)
		}
	}
	_ = main
}

// Two controllers over one bucket, with events, and something else that runs beside them. The stop comes from inside.
func Example() {
	server, err := natstest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer cancel()

	m, err := manager.New(ctx, manager.Config{URL: server.URL()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close(context.Background())
	events, err := m.NewRecorder(recorder.Config{Component: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	config := entity.Config{Kind: "Site", Bucket: "sites"}
	sites, err := manager.Client[*Site](ctx, m, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	config.StatusBucket = "sites-audit"
	audited, err := manager.Client[*Site](ctx, m, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	serving, err := controller.New("serving", sites, &reconciler{sites}, controller.WithEventRecorder(events))
	if err != nil {
		fmt.Println(err)
		return
	}
	audit, err := controller.New("audit", audited, &reconciler{audited}, controller.WithEventRecorder(events))
	if err != nil {
		fmt.Println(err)
		return
	}
	user := manager.Func("user", func(ctx context.Context) error {
		defer cancel() // the others stop with Run's context
		site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}, Spec: siteSpec{Domain: "home.example"}}
		if err := sites.Create(ctx, site); err != nil {
			return err
		}
		for _, client := range []*entity.Client[*Site]{sites, audited} {
			if err := entity.WaitReconciled(ctx, client, "home", uint64(site.Generation)); err != nil {
				return err
			}
			fmt.Println("reconciled, as", client.Config().StatusBucket, "says")
		}
		events.Event(site, corev1.EventTypeNormal, "Seen", "by both")
		return nil
	})
	if err := m.Add(serving, audit, user); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one cache:", sites.SharesCacheWith(audited))
	fmt.Println("stopped with error", m.Run(ctx))
	// Output:
	// one cache: true
	// reconciled, as sites-status says
	// reconciled, as sites-audit says
	// stopped with error <nil>
}
