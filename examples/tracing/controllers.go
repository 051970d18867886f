package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/traces"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Thing is an order, a workload or a volume: how much is wanted, and whether it is there.
type Thing = entity.Object[Spec, Status]

// Spec is what is wanted.
type Spec struct {
	Gigabytes int `json:"gigabytes"`
}

// Status is what there is.
type Status struct {
	Ready bool `json:"ready,omitempty"`
}

type world struct {
	tracer                     *traces.Tracer
	orders, workloads, volumes *entity.Client[*Thing]
	disks                      external.Driver[Spec, int]
}

func newWorld(ctx context.Context, js jetstream.JetStream, tracer *traces.Tracer) (w *world, err error) {
	w = &world{tracer: tracer, disks: traces.Driver(tracer, &disks{sizes: map[string]int{}})}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.orders, err = client(ctx, js, tracer, "Order", "nagi-sample-orders"); err != nil {
		return nil, err
	}
	if w.workloads, err = client(ctx, js, tracer, "Workload", "nagi-sample-workloads"); err != nil {
		return nil, err
	}
	w.volumes, err = client(ctx, js, tracer, "Volume", "nagi-sample-volumes")
	return w, err
}

func (w *world) close() {
	for _, c := range []*entity.Client[*Thing]{w.orders, w.workloads, w.volumes} {
		if c != nil {
			c.Close()
		}
	}
}

// start runs the three controllers until stop, and waits until they work: what a controller finds when it starts has no
// cause but the start.
func (w *world) start(ctx context.Context) (stop func() error, err error) {
	orders, err1 := controller.New("sample-orders", w.orders, makes(w.orders, w.workloads),
		controller.WithObserver(w.tracer), controller.Owns(w.workloads))
	workloads, err2 := controller.New("sample-workloads", w.workloads, makes(w.workloads, w.volumes),
		controller.WithObserver(w.tracer), controller.Owns(w.volumes))
	volumes, err3 := controller.New("sample-volumes", w.volumes, controller.ReconcilerFunc(w.reconcileVolume),
		controller.WithObserver(w.tracer))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 3)
	all := []*controller.Controller[*Thing]{orders, workloads, volumes}
	for _, c := range all {
		go func() {
			defer cancel() // one that fails stops the others
			stopped <- c.Run(ctx)
		}()
	}
	for _, c := range all {
		for !c.Stats().Leading && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return func() error {
		cancel()
		return errors.Join(<-stopped, <-stopped, <-stopped)
	}, nil
}

// makes reconciles a thing to another one of the same name, and is ready when that is.
func makes(from, to *entity.Client[*Thing]) controller.ReconcilerFunc {
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		thing, err := from.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil // what it owns is deleted by the runtime
		} else if err != nil {
			return controller.Result{}, err
		}
		made := &Thing{ObjectMeta: metav1.ObjectMeta{Name: thing.Name}}
		_, err = controller.CreateOrUpdate(ctx, to, made, func(made *Thing) error {
			made.Spec = thing.Spec
			return nil
		})
		if err != nil {
			return controller.Result{}, err
		}
		thing.Status.Ready = made.Status.Ready
		return controller.Result{}, controller.SetStatus(ctx, thing)
	}
}

// reconcileVolume makes a disk behind the API.
func (w *world) reconcileVolume(ctx context.Context, req controller.Request) (controller.Result, error) {
	volume, err := w.volumes.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		result, err := external.ReconcileAbsent(ctx, w.disks)
		return controller.Result{RequeueAfter: result.RequeueAfter}, err
	} else if err != nil {
		return controller.Result{}, err
	}
	result, err := external.Reconcile(ctx, w.disks, volume.Spec)
	if err != nil {
		return controller.Result{}, err
	}
	volume.Status.Ready = result.State == external.StateSynced
	return controller.Result{RequeueAfter: result.RequeueAfter}, controller.SetStatus(ctx, volume)
}

// awaitReady waits until an order is ready.
func (w *world) awaitReady(ctx context.Context, key string) error {
	return entity.WaitFor(ctx, w.orders, key, func(*entity.Record) (bool, error) {
		order, err := w.orders.Get(ctx, key)
		return err == nil && order.Status.Ready, err
	})
}

// disks is the driver of an API that is a map.
type disks struct {
	mu    sync.Mutex
	sizes map[string]int
}

func (*disks) Kind() string { return "Disk" }

func (d *disks) Observe(_ context.Context, target external.Target) (external.Observation[int], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size, exists := d.sizes[target.Owner.Key]; exists {
		return external.Exists(size), nil
	}
	return external.Absent[int](), nil
}

func (*disks) Diff(desired Spec, observed int) []external.Change {
	if desired.Gigabytes == observed {
		return nil
	}
	return []external.Change{{Field: "gigabytes"}}
}

func (d *disks) Apply(_ context.Context, request external.ApplyRequest[Spec, int]) (external.Outcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sizes[request.Owner.Key] = request.Desired.Gigabytes
	return external.Done(), nil
}

func (d *disks) Delete(_ context.Context, request external.DeleteRequest[int]) (external.Outcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sizes, request.Owner.Key)
	return external.Done(), nil
}
