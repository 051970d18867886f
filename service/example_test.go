package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

type site = entity.Object[struct{}, struct{}]

func reconcile(_ context.Context, req controller.Request) (controller.Result, error) {
	if req.Operations.Has(controller.OperationDelete) {
		return controller.Result{}, nil // gone: an error would keep its teardown from ever being over
	}
	return controller.Result{}, controller.TerminalError(errors.New("no such domain"))
}

// A manager runs a controller and the service. Somebody who knows nothing but the subject asks why a key waits.
func Example() {
	server, err := natstest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer cancel()

	m, err := manager.New(ctx, manager.Config{URL: server.URL(), WaitForServer: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close(context.Background())
	// A connection of its own. Where there are users, it is that of one who may publish to inboxes only.
	own, err := nats.Connect(server.URL(), nats.Name("service"), nats.Timeout(10*time.Second),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())
	if err != nil {
		fmt.Println(err)
		return
	}
	svc, err := service.New(service.Config{Conn: own})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := manager.Client[*site](ctx, m, entity.Config{Kind: "Site", Bucket: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(reconcile), svc.Controller())
	if err != nil {
		fmt.Println(err)
		return
	}
	operator := manager.Func("operator", func(ctx context.Context) error {
		defer cancel()
		if err := sites.Create(ctx, &site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}); err != nil {
			return err
		}
		for {
			answer, err := m.Conn().Request("nagi.sites.read.explain", []byte(`{"key":"home"}`), 10*time.Second)
			var e controller.Explanation
			if err == nil {
				err = json.Unmarshal(answer.Data, &e)
			}
			if err == nil && e.State == controller.StateParked {
				fmt.Println(e.Says)
				return nil
			}
			if err != nil && !errors.Is(err, nats.ErrNoResponders) { // nobody leads yet
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	if err := m.Add(c, svc, operator); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped with error", m.Run(ctx))
	// Output:
	// The reconcile of revision 1 failed for good: terminal error: no such domain.
	// stopped with error <nil>
}
