package main

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// most is the most workloads of an order, and volumes of a workload.
const most = 10

// orders makes the workloads of an order. What an order does not want any more, the runtime deletes.
type orders struct {
	orders    *entity.Client[*Order]
	workloads *entity.Client[*Workload]
}

func (r *orders) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	order, err := r.orders.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil // the runtime deletes what it owned
	}
	if err != nil {
		return controller.Result{}, err
	}
	if order.Spec.Workloads > most || order.Spec.Volumes > most {
		return controller.Result{}, controller.TerminalError(fmt.Errorf("%d workloads with %d volumes are too many: "+
			"%d of each at most", order.Spec.Workloads, order.Spec.Volumes, most))
	}
	order.Status = Progress{}
	for i := range order.Spec.Workloads {
		w := &Workload{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-w%d", order.Name, i)}}
		if _, err := controller.CreateOrUpdate(ctx, r.workloads, w, func(w *Workload) error {
			w.Spec = WorkloadSpec{Volumes: order.Spec.Volumes, Gigabytes: order.Spec.Gigabytes}
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
		if w.Status.Done {
			order.Status.Ready++
		}
	}
	order.Status.Done = order.Status.Ready == order.Spec.Workloads
	return controller.Result{}, controller.SetStatus(ctx, order)
}

// workloads makes the volumes of a workload.
type workloads struct {
	workloads *entity.Client[*Workload]
	volumes   *entity.Client[*Volume]
}

func (r *workloads) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	workload, err := r.workloads.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	workload.Status = Progress{}
	for i := range min(workload.Spec.Volumes, most) {
		v := &Volume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-v%d", workload.Name, i)}}
		if _, err := controller.CreateOrUpdate(ctx, r.volumes, v, func(v *Volume) error {
			v.Spec.Gigabytes = workload.Spec.Gigabytes
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
		if v.Status.Done {
			workload.Status.Ready++
		}
	}
	workload.Status.Done = workload.Status.Ready == workload.Spec.Volumes
	return controller.Result{}, controller.SetStatus(ctx, workload)
}

// volumes would make a disk somewhere; see examples/jetstream and package external for how.
type volumes struct{ volumes *entity.Client[*Volume] }

func (r *volumes) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	volume, err := r.volumes.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	volume.Status.Done = true
	return controller.Result{}, controller.SetStatus(ctx, volume)
}
