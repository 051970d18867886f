package main

import (
	"context"
	"embed"
	"errors"
	"maps"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/traces"
)

// leaseTiming is shorter than the default, whose Duration is 15 s, so that you need not wait long for a replica that
// takes over from one that was cut off. A shorter one is lost where the machine stands still for a few seconds.
var leaseTiming = controller.LeaseTiming{
	Duration: 7 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 500 * time.Millisecond,
}

// source is what the registry shows of the kinds beside their types: comments and markers.
//
//go:embed kinds.go
var source embed.FS

// replica is one process with the three controllers, and all that an operator wants to see of it.
type replica struct {
	*manager.Manager
	orders    *controller.Controller[*Order]
	workloads *controller.Controller[*Workload]
	volumes   *controller.Controller[*Volume]
	server    *probes.Server

	metrics *metrics.Metrics
	probes  *probes.Probes
	tracer  *traces.Tracer
	events  *recorder.Recorder
}

// newReplica connects, and makes all that Run of the manager runs. It is the main of a production program.
func newReplica(ctx context.Context, config manager.Config, tracer *traces.Tracer, http string) (*replica, error) {
	config.WaitForServer = time.Minute // it may come up after this program

	// One replica leads all three controllers.
	config.Lease = &manager.Lease{Bucket: "fleet-lease", Timing: leaseTiming}
	m, err := manager.New(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &replica{Manager: m, metrics: metrics.New(), probes: probes.New(), tracer: tracer}
	if err := errors.Join(r.makeControllers(ctx), r.serve(http)); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return r, nil
}

// makeControllers makes a client for each kind, and a controller that reconciles it.
func (r *replica) makeControllers(ctx context.Context) (err error) {
	if r.events, err = r.NewRecorder(recorder.Config{Component: "fleet"}); err != nil {
		return err
	}
	orderClient, err1 := manager.Client[*Order](ctx, r.Manager, r.bucket("Order", "fleet-orders"))
	workloadClient, err2 := manager.Client[*Workload](ctx, r.Manager, r.bucket("Workload", "fleet-workloads"))
	volumeClient, err3 := manager.Client[*Volume](ctx, r.Manager, r.bucket("Volume", "fleet-volumes"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	r.orders, err1 = controller.New("orders", orderClient, &orders{orderClient, workloadClient},
		r.with(controller.Owns(workloadClient, controller.WithPrune()), controller.WithWorkers(4))...)
	r.workloads, err2 = controller.New("workloads", workloadClient, &workloads{workloadClient, volumeClient},
		r.with(controller.Owns(volumeClient, controller.WithPrune()), controller.WithWorkers(4))...)
	r.volumes, err3 = controller.New("volumes", volumeClient, &volumes{volumeClient},
		r.with(controller.WithWorkers(4))...)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	r.probes.Add("orders", r.orders)
	r.probes.Add("workloads", r.workloads)
	r.probes.Add("volumes", r.volumes)
	return r.Add(r.orders, r.workloads, r.volumes)
}

// bucket is the configuration of a client whose writes carry the trace on.
func (r *replica) bucket(kind, bucket string) entity.Config {
	return entity.Config{Kind: kind, Bucket: bucket, OnWrite: r.tracer.OnWrite}
}

// with adds what each controller has: metrics, traces, events, an entry in the registry of kinds.
func (r *replica) with(opts ...controller.Option) []controller.Option {
	return append(opts,
		r.metrics.Controller(),
		controller.WithObserver(r.tracer),
		controller.WithEventRecorder(r.events),
		controller.WithLeaseTiming(leaseTiming),
		registry.Publish(registry.Options{Source: source, Version: "v1.0.0"}),
	)
}

// serve has one listener answer for metrics and probes.
func (r *replica) serve(address string) error {
	r.metrics.Recorder("fleet", r.events)
	handlers := maps.Clone(r.probes.Handlers())
	handlers["/metrics"] = r.metrics.Handler()
	r.server = &probes.Server{Address: address, Handlers: handlers}
	return r.Add(r.server)
}
