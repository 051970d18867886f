package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	nagi "github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// none fills the unused slots.
type none = *entity.None

// runtime names the types in the slots: the primary, four secondaries, four tertiaries.
type runtime = nagi.ControllerRuntime[*App, *Process, *Endpoint, none, none, *Plan, none, none, none]

// appController embeds the runtime, and so inherits Run, HandleSecondary, GarbageSecondaries and Clean. It must write
// SyncHandler; HandleTertiary is optional.
type appController struct {
	*runtime
	apps      *entity.Client[*App]
	processes *entity.Client[*Process]
	endpoints *entity.Client[*Endpoint]
	plans     *entity.Client[*Plan]
	js        jetstream.JetStream // for the scenario, which reads events
}

func newController(ctx context.Context, js jetstream.JetStream) (*appController, error) {
	apps, err1 := entity.NewClient[*App](ctx, js, entity.Config{Kind: "App", Bucket: "apps"})
	processes, err2 := entity.NewClient[*Process](ctx, js, entity.Config{Kind: "Process", Bucket: "processes"})
	endpoints, err3 := entity.NewClient[*Endpoint](ctx, js, entity.Config{Kind: "Endpoint", Bucket: "endpoints"})
	plans, err4 := entity.NewClient[*Plan](ctx, js, entity.Config{Kind: "Plan", Bucket: "plans"})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	c := &appController{apps: apps, processes: processes, endpoints: endpoints, plans: plans, js: js}
	c.runtime = nagi.NewControllerRuntime[*App, *Process, *Endpoint, none, none, *Plan, none, none, none](
		"apps", "App",
		nil, // a Kubernetes clientset, for events about Kubernetes objects
		apps,
		nil, nil, // informers of Kubernetes secondaries, and tertiaries
		processes, endpoints, nil, nil, // secondaries in NATS
		plans, nil, nil, nil, // tertiaries in NATS
		nil, // external clients
		time.Minute,
	)
	c.SetCustomController(c)
	return c, nil
}

func (c *appController) close() {
	c.apps.Close()
	c.processes.Close()
	c.endpoints.Close()
	c.plans.Close()
}

// SyncHandler makes the process and the endpoint of an app match the app and its plan. It looks at the state, not at
// what happened, so it may be called at any time, and again after an error.
//
// It writes with the context of this sync. So what it writes is owned by the app, what another app owns is refused, and
// all ends when the controller has to stop.
func (c *appController) SyncHandler(key string) error {
	ctx, cancel := context.WithTimeout(c.Context(key), 5*time.Second)
	defer cancel()

	app, err := c.apps.Lister().Get(key)
	if apierrors.IsNotFound(err) {
		return errors.Join(deleteOwned(ctx, c.processes, key, ""), deleteOwned(ctx, c.endpoints, key, ""))
	}
	if err != nil {
		return err
	}
	plan, err := c.plans.Lister().Get(app.Spec.Plan)
	if err != nil {
		return fmt.Errorf("plan of app %q: %w", key, err) // tried again later, or when the plan comes
	}
	err = c.apply(ctx, app, plan)
	var owned *controller.AlreadyOwnedError
	if errors.As(err, &owned) {
		c.Event(app, corev1.EventTypeWarning, nagi.ReasonErrResourceExists,
			fmt.Sprintf(nagi.MessageErrResourceExists, owned.Object))
	}
	return err // tried again later: the name may be free then
}

func (c *appController) apply(ctx context.Context, app *App, plan *Plan) error {
	process := &Process{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	_, err := controller.CreateOrUpdate(ctx, c.processes, process, func(p *Process) error {
		p.Spec = ProcessSpec{Image: app.Spec.Image, Memory: plan.Spec.Memory}
		return nil
	})
	if err != nil {
		return err
	}
	endpoint := &Endpoint{ObjectMeta: metav1.ObjectMeta{Name: app.Spec.Endpoint}}
	_, err = controller.CreateOrUpdate(ctx, c.endpoints, endpoint, func(e *Endpoint) error {
		e.Spec.Host = app.Spec.Endpoint + ".example.com"
		return nil
	})
	if err != nil {
		return err
	}
	if err := deleteOwned(ctx, c.endpoints, app.Name, app.Spec.Endpoint); err != nil {
		return err // of an app that asked for another one before
	}
	if app.Status.Host == endpoint.Spec.Host {
		return nil
	}
	app.Status.Host = endpoint.Spec.Host
	c.Event(app, corev1.EventTypeNormal, nagi.ReasonResourceSynced,
		fmt.Sprintf(nagi.MessageResourceSyncedCreated, app.Name))
	return controller.SetStatus(ctx, app)
}

// deleteOwned deletes what an app owns of a kind, but for one name: there is no automatic cascade.
func deleteOwned[T entity.IEntity](ctx context.Context, client *entity.Client[T], key, keep string) error {
	owned, err := client.Lister().OwnedBy("App", key)
	for _, obj := range owned {
		if obj.GetName() != keep {
			err = errors.Join(err, ignoreNotFound(client.Delete(ctx, obj.GetName())))
		}
	}
	return err
}

// HandleTertiary enqueues the apps of a plan that changed.
func (c *appController) HandleTertiary(obj any) {
	plan, ok := obj.(*Plan)
	if !ok {
		return
	}
	apps, err := c.apps.Lister().List(nil)
	if err != nil {
		return // the next resync makes up for it
	}
	for _, app := range apps {
		if app.Spec.Plan == plan.Name {
			c.EnqueueKey(app.Name, nagi.OperationTertiary)
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
