package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// name is the name of the controller that a Runner is. It is kept in the status bucket.
const name = "reconciletest"

// Runner runs reconciles of one controller by hand, one at a time. Its methods must be called in the test's goroutine.
type Runner[T entity.IEntity] struct {
	t          testing.TB
	controller *controller.Controller[T]
	client     entity.IEntityClient[T]
	engine     *engine.Engine
	hand       engine.Hand
	recorder   *Recorder
	buckets    *buckets
	caches     caches
}

// New makes a controller of the primary client, the reconciler and the options, which are those of controller.New, and
// returns when its caches are synced. It claims the status bucket under the name "reconciletest". Everything is
// released when the test ends. What cannot be made fails the test.
func New[T entity.IEntity](
	t testing.TB, primary entity.IEntityClient[T], r controller.Reconciler, opts ...controller.Option,
) *Runner[T] {
	t.Helper()
	run := &Runner[T]{t: t, client: primary}
	var err error
	run.controller, err = controller.New(name, primary, r, append(slices.Clone(opts), run.attach)...)
	if err != nil {
		t.Fatalf("reconciletest: %v", err)
	}
	js := primary.EnginePort().JetStream()
	if js == nil {
		t.Fatalf("reconciletest: the primary's client is a %T, whose EnginePort does not tell its connection", primary)
	}
	run.buckets = &buckets{js: js, streams: map[string]*bucketStream{}}
	if err := run.start(t.Context()); err != nil {
		t.Fatalf("reconciletest: %v", err)
	}
	return run
}

// attach is an option that comes after the user's.
func (r *Runner[T]) attach(o *engine.Options) error {
	o.Attach = func(e *engine.Engine) { r.engine = e }
	given, ours := o.Recorder.(*Recorder)
	if ours {
		r.recorder = given
		return nil
	}
	r.recorder = &Recorder{}
	if o.Recorder != nil {
		r.recorder.next = o.Recorder
	}
	o.Recorder = r.recorder
	return nil
}

func (r *Runner[T]) start(ctx context.Context) error {
	hand, stop, err := r.engine.ByHand(ctx)
	r.t.Cleanup(stop)
	if err != nil {
		return err
	}
	r.hand, r.caches = hand, cachesOf(r.engine)
	_, err = r.catchUp(ctx)
	return err
}

// Controller is the controller, for a reconciler that uses LastKnown, SetOwner or Instance. It cannot be run.
func (r *Runner[T]) Controller() *controller.Controller[T] { return r.controller }

// Reconcile runs one reconcile of a key, for the operations given; none means OperationPut. It first waits until the
// caches of all sources in NATS show what is in their buckets, and returns when the outcome is written and the caches
// show what the reconcile wrote.
//
// Where a controller would not call the reconciler, Err is ErrNotReconciled. Only what the test cannot go on with fails
// the test: a server that is away, a cache that stands still.
func (r *Runner[T]) Reconcile(ctx context.Context, key string, operations ...controller.Operation) Outcome[T] {
	r.t.Helper()
	if len(operations) == 0 {
		operations = []controller.Operation{controller.OperationPut}
	}
	before := r.ready(ctx, key)
	got := r.handOut(ctx, key, operation.Of(operations...)|operation.ByHand)
	got.Written = append(got.Written, kubeWrites(before, kubeObjects(r.engine))...)
	return got
}

// Delete deletes the primary's document, if there is one, and runs its teardown: the reconciler with OperationDelete,
// then the cascade, until nothing is owed, or something holds it up: an error, a RequeueAfter of the reconciler, a
// finalizer of a Kubernetes object. Outcome.TornDown says which. The delete of the document itself is not in Written.
func (r *Runner[T]) Delete(ctx context.Context, key string) Outcome[T] {
	r.t.Helper()
	if err := r.client.Delete(ctx, key); err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatalf("reconciletest: %v", err)
	}
	before := r.ready(ctx, key)
	got := r.handOut(ctx, key, operation.Of(operation.Delete)|operation.ByHand)
	for until := time.Now().Add(cascadePatience); got.again && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(cascadePause)
		r.ready(ctx, key)
		more := r.handOut(ctx, key, operation.Of(operation.Resync)) // goes on with the cascade alone
		more.Written, more.Events = append(got.Written, more.Written...), append(got.Events, more.Events...)
		if errors.Is(more.Err, ErrNotReconciled) {
			more.Err = nil // it was before
		}
		got = more
	}
	// An informer that is late may show a delete between two hand-outs.
	got.Written = append(got.Written, kubeWrites(before, kubeObjects(r.engine))...)
	return got
}

// ready waits until a key can be handed out, and returns what the informers show then.
func (r *Runner[T]) ready(ctx context.Context, key string) map[kubeObject]metav1.Object {
	r.t.Helper()
	if err := r.prepare(ctx, key); err != nil {
		r.t.Fatalf("reconciletest: before the reconcile of %q: %v", key, err)
	}
	return kubeObjects(r.engine)
}

// handOut is one hand-out of a key that is ready. Of what was written it has the documents.
func (r *Runner[T]) handOut(ctx context.Context, key string, ops operation.Operations) (got Outcome[T]) {
	r.t.Helper()
	events := r.recorder.count()
	first, last := r.hand.HandOut(ctx, key, ops)

	got.Result.RequeueAfter = first.Attempt.Requeue
	if prio := first.Attempt.Priority; prio != nil {
		got.Result.Priority = new(int(*prio))
	}
	got.Err = errors.Join(first.Attempt.Err, first.Err)
	if first.Attempt.Err != nil && first.Err == nil {
		got.Err = first.Attempt.Err
	}
	if last.Verdict == lifecycle.RecordFailed || last.Verdict == lifecycle.StatusRefused {
		got.Err = errors.Join(got.Err, last.Err)
	}
	got.TornDown = first.Verdict == lifecycle.TornDown || first.Verdict == lifecycle.NothingOwed
	got.again = first.Verdict == lifecycle.Succeeded && first.After > 0 && first.Attempt.Requeue <= 0
	got.Events = r.recorder.since(events)
	if err := r.readBack(ctx, key, first.Attempt.Status != nil, &got); err != nil {
		r.t.Fatalf("reconciletest: after the reconcile of %q: %v", key, err)
	}
	if first.Attempt.Number == 0 && got.Err == nil {
		got.Err = fmt.Errorf("%w: %s", ErrNotReconciled, r.whyNot(first.Verdict, got))
	}
	return got
}

// prepare waits until the caches show what is there, and until the news of a delete has arrived.
func (r *Runner[T]) prepare(ctx context.Context, key string) error {
	changes, err := r.catchUp(ctx)
	if err != nil {
		return err
	}
	bucket := r.client.Config().Bucket
	deleted := slices.ContainsFunc(changes, func(c change) bool {
		_, changed := r.caches.name(c)
		return c.bucket == bucket && changed == key && c.deleted
	})
	if deleted {
		ctx, cancel := context.WithTimeout(ctx, handlerPatience)
		defer cancel()
		r.hand.AwaitDelete(ctx, key)
	}
	return nil
}

// catchUp reads what was written, and waits until the caches show it.
func (r *Runner[T]) catchUp(ctx context.Context) ([]change, error) {
	changes, err := r.buckets.read(ctx)
	if err != nil {
		return nil, err
	}
	return changes, r.caches.await(ctx, changes)
}

// readBack waits until the caches show the reconcile's writes, and reads what is there now.
func (r *Runner[T]) readBack(ctx context.Context, key string, hasStatus bool, got *Outcome[T]) error {
	ctx = context.WithoutCancel(ctx) // a reconcile that was cancelled has written something, too
	r.hand.AwaitWrites(ctx, key)
	changes, err := r.catchUp(ctx)
	if err != nil {
		return err
	}
	cfg := r.client.Config()
	for _, c := range changes {
		if c.bucket == cfg.StatusBucket {
			continue
		}
		if w, ok := c.written(r.caches.name(c)); ok {
			got.Written = append(got.Written, w)
		}
	}
	if r.client.EnginePort().Records() == nil {
		return nil
	}
	record, err := r.client.Record(ctx, key)
	if err == nil {
		if condition := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled); condition != nil {
			got.Condition = *condition
		}
	} else if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return err
	}
	if !hasStatus {
		return nil
	}
	got.Status, err = r.client.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil // the reconcile has deleted its own primary
	}
	return err
}

func (r *Runner[T]) whyNot(verdict lifecycle.Verdict, got Outcome[T]) string {
	switch {
	case verdict == lifecycle.Malformed:
		return "no primary can have such a key"
	case verdict == lifecycle.NothingOwed:
		return "there is no document, and no record of one that was reconciled: no teardown is owed"
	case verdict == lifecycle.DocumentReturned:
		return "the document exists again"
	case got.Condition.Reason != "":
		return fmt.Sprintf("the record says %s: %s", got.Condition.Reason, got.Condition.Message)
	}
	return "the key is parked or held"
}
