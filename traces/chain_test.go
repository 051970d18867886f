package traces_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/traces"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumesReconciler makes a disk of each volume.
func (w *world) volumesReconciler(
	driver external.Driver[spec, int], get func(string) (*thing, error),
) controller.ReconcilerFunc {
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		obj, err := get(req.Key)
		if err != nil {
			result, err := external.ReconcileAbsent(ctx, driver)
			return controller.Result{RequeueAfter: result.RequeueAfter}, err
		}
		result, err := external.Reconcile(ctx, driver, obj.Spec)
		return controller.Result{RequeueAfter: result.RequeueAfter}, err
	}
}

const wholeTree = `put Order
  reconcile Order
    put Workload
      reconcile Workload
        put Volume
          reconcile Volume
            observe Disk
            apply Disk
            observe Disk
            put Volume record
        put Workload record
    put Order record
`

// TestOneTraceShowsAPutThroughThreeControllers to the call of an API, if that is wanted, whether reconciles are
// children of the put or only linked to it. By default links show the same through several traces. The whole tree is
// compared.
func TestOneTraceShowsAPutThroughThreeControllers(t *testing.T) {
	for name, opts := range map[string][]traces.Option{
		"by default": nil, "continued": {traces.ContinueTraces()}, "trusted": {traces.TrustHeaders()},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, sdktrace.ParentBased(sdktrace.AlwaysSample()), opts...)
				orders, workloads, volumes := w.client("Order"), w.client("Workload"), w.client("Volume")
				driver := traces.Driver(w.tracer, &disks{sizes: map[string]int{}})
				w.run(volumes, w.volumesReconciler(driver, volumes.Lister().Get))
				w.run(workloads, makes(workloads, volumes))
				w.run(orders, makes(orders, workloads))
				user := w.inSpan("user", func(ctx context.Context) {
					must(t, orders.Create(ctx, &thing{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: spec{Size: 3}}))
				})
				for _, record := range []string{"put Order record", "put Workload record", "put Volume record"} {
					w.await(record, 1)
				}
				spans := w.all()
				if got := tree(spans, user); got != wholeTree {
					t.Errorf("the tree is\n%swant\n%s", got, wholeTree)
				}
				for _, s := range spans {
					inTrace := s.SpanContext.TraceID() == user.TraceID()
					wantIn := name != "by default" || s.Name == "user" || s.Name == "put Order"
					if inTrace != wantIn {
						t.Errorf("%s: in the user's trace: %v", s.Name, inTrace)
					}
					if s.Status.Code == codes.Error {
						t.Errorf("%s failed: %s", s.Name, s.Status.Description)
					}
				}
				for _, kind := range []string{"Order", "Workload", "Volume"} {
					s := w.named("reconcile " + kind)[0]
					put := w.named("put " + kind)[0]
					if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != put.SpanContext.SpanID() {
						t.Errorf("%s is linked to %v, not to its put", s.Name, s.Links)
					}
					if child := s.Parent.SpanID() == put.SpanContext.SpanID(); child != (name == "trusted") {
						t.Errorf("%s: is a child of the put: %v", s.Name, child)
					}
					if attr(s, "nagi.key").AsString() != "one" || attr(s, "nagi.operations").AsString() != "Put" ||
						attr(s, "nagi.attempt").AsInt64() != 1 || attr(s, "nagi.causes").AsInt64() != 1 ||
						attr(s, "nagi.queue_wait_seconds") != attribute.Float64Value(0) || attr(s, "nagi.kind").AsString() != kind ||
						attr(s, "nagi.outcome").AsString() != "succeeded" {
						t.Errorf("%s has the attributes %v", s.Name, s.Attributes)
					}
				}
			})
		})
	}
}

// TestASpanTellsHowLongItsKeyWaited in the queue: the only worker is busy with another key for three seconds.
func TestASpanTellsHowLongItsKeyWaited(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders := w.client("Order")
		w.run(orders, func(context.Context, controller.Request) (controller.Result, error) {
			time.Sleep(3 * time.Second)
			return controller.Result{}, nil
		}, controller.WithWorkers(1))
		for _, name := range []string{"one", "two"} {
			must(t, orders.Create(t.Context(), named(name)))
		}
		for i, s := range w.await("reconcile Order", 2) {
			if wait := attr(s, "nagi.queue_wait_seconds"); wait != attribute.Float64Value(3*float64(i)) {
				t.Errorf("reconcile %d has waited for %v", i, wait.AsInterface())
			}
		}
	})
}
