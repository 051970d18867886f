package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// ErrNoPlans is the error of Plan of a controller that has not said that it can.
var ErrNoPlans = errors.New("it makes no plans, because nothing says that its reconciler writes through the helpers " +
	"of Nagi alone: give it WithPlan if that is so")

// ErrNoPlanYet is the error of Plan while the caches are not complete, or Run has ended.
var ErrNoPlanYet = errors.New("its caches are not complete, or it has ended: try again where it runs")

// planPatience is how long the reconciler of a plan may take to return once its context has ended. Then the plan is
// given up, and the key is held until the reconciler returns.
const planPatience = time.Second

// ErrPlanHangs is the error of Plan whose reconciler has not returned.
var ErrPlanHangs = errors.New("the reconciler of a plan does not heed the end of its context")

// Plan calls the reconciler for a key as if it were due, and returns what it would change, without a write. Meanwhile
// no worker has the key.
func (e *Engine) Plan(ctx context.Context, key string) (*dryrun.Outcome, error) {
	_, inside := reconcilectx.Of(ctx)
	switch {
	case !e.opts.Plans:
		return nil, ErrNoPlans
	case inside:
		return nil, errors.New("it was asked for with the context of a reconcile, and a plan waits for that of its key")
	case !e.synced.Load() || e.claim != nil && e.InstanceID() == "":
		return nil, ErrNoPlanYet
	case !e.WellFormed(key):
		return nil, fmt.Errorf("the bucket can have no key %s", printable.Quote(key))
	}
	ctx, end, ok := e.plans.begin(ctx)
	if !ok {
		return nil, ErrNoPlanYet
	}
	if err := e.queue.Hold(ctx, key); err != nil {
		end()
		return nil, fmt.Errorf("wait for the reconcile of %s that goes on: %w", printable.Quote(key), err)
	}
	type result struct {
		out *dryrun.Outcome
		err error
	}
	made := make(chan result, 1)
	go func() {
		defer end()
		defer e.queue.Release(key)
		worker := e.running.Worker() // what does not return shows as any reconcile
		defer worker.Leave()
		worker.Take(key)
		defer e.running.End(e.running.Begin(key, time.Now(), 0))
		out, err := e.makePlan(ctx, key)
		made <- result{out, err}
	}()
	select {
	case r := <-made:
		return r.out, r.err
	case <-ctx.Done():
	}
	patience := time.NewTimer(planPatience)
	defer patience.Stop()
	select {
	case r := <-made:
		return r.out, r.err
	case <-patience.C:
		return nil, fmt.Errorf("%w: it has not returned %v after that (%w); until it does, %s is not reconciled: let "+
			"it heed its context", ErrPlanHangs, planPatience, context.Cause(ctx), printable.Quote(key))
	}
}

// makePlan is for a key that is held.
func (e *Engine) makePlan(ctx context.Context, key string) (*dryrun.Outcome, error) {
	v, ops := e.primary.View(key), operation.Of(operation.Manual)
	if v.Presence == source.Absent {
		if ops = e.owedDelete(key); ops == 0 {
			return nil, apierrors.NewNotFound(resourceOf(e.Kind), key)
		}
	}
	plan := dryrun.New()
	out := &dryrun.Outcome{Key: key, Revision: v.Revision, Operations: ops.String(), Changes: []dryrun.Change{}}
	switch {
	case v.IsComing():
		return nil, ErrNoPlanYet
	case v.Presence == source.Invalid:
		out.Error = "it is not reconciled, because its document is invalid: " + printable.Message(v.Why.Error())
		return out, nil
	case v.Suspended():
		plan.Note("its document asks not to be reconciled: this is what would happen if it were resumed")
	}
	e.planned(ctx, plan, out, ops)
	out.Changes, out.Notes = append(out.Changes, plan.Changes()...), plan.Notes()
	return out, nil
}

// owedDelete is why a key without a document would be reconciled; 0 if it would not.
func (e *Engine) owedDelete(key string) operation.Operations {
	owed := e.keys.Of(key).Deleted != nil
	if e.records != nil {
		owed = record.IsAnchor(e.anchors.Cached(key))
	}
	if !owed {
		return 0
	}
	return operation.Of(operation.Delete)
}

// planned calls the reconciler, and adds what the runtime would do after it.
func (e *Engine) planned(ctx context.Context, plan *dryrun.Plan, out *dryrun.Outcome, ops operation.Operations) {
	logger := printable.Logger(klog.FromContext(ctx)).WithValues(
		"controller", e.name, "kind", e.Kind, "key", out.Key, "plan", true)
	own := reconcilectx.NewContext(klog.NewContext(ctx, logger), &e.contexts, logger, out.Key, ops)
	own.Run, own.Plan = reconcilectx.RunID(runs.Add(1)), plan
	own.Recorded = e.records != nil && ops.Has(operation.Manual)
	under, cancel := context.Context(own), func() {}
	if e.opts.ReconcileTimeout > 0 {
		under, cancel = context.WithTimeoutCause(under, e.opts.ReconcileTimeout, ErrReconcileTimeout)
	}
	defer cancel()
	var requeue Requeue
	err := guard.Call(func() (err error) {
		requeue, err = e.unpruned(under, out.Key, ops)
		return err
	})
	after, waits := own.Pending()
	if out.Waits = printable.Message(waits); waits == "" || requeue.After > 0 && requeue.After < after {
		after = requeue.After
	}
	if after > 0 {
		out.RequeueAfter = after.Round(time.Millisecond).String()
	}
	if err == nil {
		err = e.plannedStatus(plan, out.Key, own.TakeStatus())
	}
	switch {
	case err == nil:
		err = e.plannedDeletes(under, plan, own, ops, requeue)
	case !ops.Has(operation.Manual):
		plan.Note("what it still owns would stay until its reconcile succeeds")
	}
	if err != nil {
		out.Error = printable.Message(err.Error())
	}
}

// plannedStatus adds the status that the reconcile has set, which is written with what comes of it.
func (e *Engine) plannedStatus(plan *dryrun.Plan, key string, change *entity.StatusChange) error {
	if change == nil {
		return nil
	}
	before := &entity.Record{}
	if cached, ok := e.records.Cached(key); ok {
		before = cached
	}
	after := *before
	if changed, err := change.Apply(&after); err != nil || !changed {
		return err
	}
	status := func(r *entity.Record) dryrun.State {
		fields := map[string]any{"status": dryrun.Decoded(r.Status)}
		return dryrun.State{Exists: true, JSON: fields, Open: fields}
	}
	plan.Wrote(change, dryrun.Object{
		System: dryrun.NATS, Kind: e.Kind, Bucket: e.statusBucket, Key: key, Status: true,
	}, status(before), status(&after))
	return nil
}

// plannedDeletes adds what the runtime would delete after a reconcile that has succeeded.
func (e *Engine) plannedDeletes(
	ctx context.Context, plan *dryrun.Plan, own *reconcilectx.Context, ops operation.Operations, requeue Requeue,
) error {
	if e.teardown != nil && !ops.Has(operation.Manual) {
		would, keeps, err := e.teardown.Planned(ctx, own.Key())
		if keeps {
			plan.Note("what it owns stays, as its last document asks")
		}
		if !e.brake.LetsGo(own.Key()) {
			plan.Note("the brake holds this delete, until it is released")
		}
		noteDeletes(plan, would, "its owner is gone")
		return err
	}
	if requeue.After > 0 { // it is not done, so it does not say all that it wants
		return nil
	}
	would, doubt, err := e.pruner.Planned(own)
	if doubt != "" {
		plan.Note("the brake would hold what is not wanted any more: %s", doubt)
	}
	why := "it is not wanted any more"
	if _, waits := own.Pending(); waits != "" {
		why = "it is not wanted any more, and goes once the primary waits for nothing"
	}
	noteDeletes(plan, would, why)
	return err
}

// noteDeletes notes deletes that the runtime would make. What is behind an API goes by the driver, if the reconciler
// has it delete something of that kind.
func noteDeletes(plan *dryrun.Plan, would []lifecycle.PlannedDelete, why string) {
	byDriver := map[string]bool{}
	for _, c := range plan.Changes() {
		if c.System == dryrun.External && c.Action == dryrun.ActionDelete {
			byDriver[c.Kind] = true
		}
	}
	for _, w := range would {
		of := objectOf(w.Source, w.Object)
		if of.System != dryrun.External || !byDriver[of.Kind] {
			plan.Would(of, dryrun.ActionDelete, nil, why)
		}
	}
}

func objectOf(s source.Owned, obj metav1.Object) dryrun.Object {
	of := dryrun.Object{System: dryrun.External, Key: source.ObjectKey(obj)}
	if placed, ok := s.(source.Placed); ok {
		of.System = dryrun.Kubernetes
		if of.Bucket = placed.Place().Bucket; of.Bucket != "" {
			of.System = dryrun.NATS
		}
	}
	switch s := s.(type) {
	case source.Kinded:
		of.Kind = s.Kind()
	case *kubesource.Source:
		of.Kind, of.Cluster = s.Over(), s.Cluster()
	default:
		_, of.Kind, _ = strings.Cut(s.String(), " ") // after its role
	}
	return of
}
