package manager_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// A controller for each tenant, that comes and goes with the tenant while the process runs.
func ExampleManager_Remove() {
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

	serve := func(ctx context.Context, tenant string) error {
		sites, err := manager.Client[*Site](ctx, m, entity.Config{Kind: "Site", Bucket: tenant})
		if err != nil {
			return err
		}
		defer sites.Close()
		c, err := controller.New(tenant, sites, &reconciler{sites})
		if err := errors.Join(err, m.Add(c)); err != nil {
			return err
		}
		site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}, Spec: siteSpec{Domain: "home.example"}}
		if err := sites.Create(ctx, site); err != nil {
			return err
		}
		if err := entity.WaitReconciled(ctx, sites, "home", uint64(site.Generation)); err != nil {
			return err
		}
		fmt.Println("the controller of", tenant, "reconciles")
		if err := m.Remove(ctx, c); err != nil {
			return err
		}
		fmt.Println("the controller of", tenant, "has ended:", c.Stats().Ended)
		return nil
	}
	tenants := manager.Func("tenants", func(ctx context.Context) error {
		defer cancel() // it ends Run
		return errors.Join(serve(ctx, "acme"), serve(ctx, "globex"))
	})
	if err := m.Add(tenants); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped with error", m.Run(ctx))
	// Output:
	// the controller of acme reconciles
	// the controller of acme has ended: true
	// the controller of globex reconciles
	// the controller of globex has ended: true
	// stopped with error <nil>
}
