package traces_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/traces"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func named(name string) *thing { return &thing{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func nothing(context.Context, controller.Request) (controller.Result, error) {
	return controller.Result{}, nil
}

// putWith puts a document as any NATS client does, with these headers.
func (w *world) putWith(key string, header nats.Header) {
	w.t.Helper()
	_, err := w.js.PublishMsg(w.t.Context(), &nats.Msg{Subject: "$KV.orders." + key, Header: header, Data: []byte(`{}`)})
	must(w.t, err)
}

// TestOneReconcileForSeveralPutsLinksAllOfThem that came while another one ran, and is in the trace of the newest.
func TestOneReconcileForSeveralPutsLinksAllOfThem(t *testing.T) {
	for _, puts := range []int{3, 40} {
		t.Run(fmt.Sprint(puts), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, sdktrace.AlwaysSample(), traces.TrustHeaders())
				orders := w.client("Order")
				running, goOn := make(chan struct{}), make(chan struct{})
				var runs atomic.Int32
				c := w.run(orders, func(context.Context, controller.Request) (controller.Result, error) {
					if runs.Add(1) == 1 {
						close(running)
						<-goOn
					}
					return controller.Result{}, nil
				})
				obj := named("one")
				w.inSpan("first", func(ctx context.Context) { must(t, orders.Create(ctx, obj)) })
				<-running
				for i := range puts {
					w.inSpan("more", func(ctx context.Context) {
						obj.Spec.Size = i + 1
						must(t, orders.Update(ctx, obj))
					})
					// The server keeps one message of a key: what is replaced before it was sent never comes.
					natstest.Eventually(t, "the put came", func() bool { return orders.Informer().Cursor() >= uint64(obj.Generation) })
				}
				// An order of its own, after the others: when it waits, the events before it have been handled.
				must(t, orders.Create(t.Context(), named("two")))
				natstest.Eventually(t, "the events have been handled", func() bool { return ready(c.Stats()) >= 1 })
				close(goOn)
				var last tracetest.SpanStub
				natstest.Eventually(t, "the second reconcile has ended", func() bool {
					for _, s := range w.named("reconcile Order") {
						if len(s.Links) > 1 {
							last = s
							return true
						}
					}
					return false
				})
				all := w.named("put Order")[1:]
				want := all[max(0, len(all)-16):]
				if len(last.Links) != len(want) || attr(last, "nagi.causes").AsInt64() != int64(puts) {
					t.Fatalf("%d links, and the attributes %v", len(last.Links), last.Attributes)
				}
				for i, put := range want {
					if last.Links[i].SpanContext.SpanID() != put.SpanContext.SpanID() {
						t.Errorf("link %d is not to put %d", i, i)
					}
				}
				newest := want[len(want)-1].SpanContext
				if last.Parent.SpanID() != newest.SpanID() || last.SpanContext.TraceID() != newest.TraceID() {
					t.Error("it is not in the trace of the newest put")
				}
			})
		})
	}
}

// ready is how many keys wait for a worker.
func ready(s controller.Stats) int { return s.Ready[0] + s.Ready[1] + s.Ready[2] }

const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestHeadersThatAreNoTraceContextAreIgnored, and the document is reconciled all the same.
func TestHeadersThatAreNoTraceContextAreIgnored(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.ParentBased(sdktrace.AlwaysSample()), traces.TrustHeaders())
		orders := w.client("Order")
		w.run(orders, nothing)
		for i, header := range []nats.Header{
			{"traceparent": {"garbage"}},
			{"traceparent": {strings.Repeat("0", 60_000)}},
			{"traceparent": {sampled + "-more"}},
			{"traceparent": {strings.ToUpper(sampled)}},
			{"traceparent": {"00-00000000000000000000000000000000-b7ad6b7169203331-01"}},
			{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}},
			{"traceparent": {"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
			{"traceparent": {sampled, sampled}},
			{"traceparent": {""}, "tracestate": {"x=1"}},
			{"Traceparent": {sampled}, "tracestate": {"x=1"}},
			{"traceparent": {"\x00\x1b[31m"}},
			{"tracestate": {"x=1"}},
		} {
			w.putWith(fmt.Sprint("order-", i), header)
			s := w.await("reconcile Order", i+1)[i]
			// The server itself turns Traceparent into traceparent where it looks for traces, and nowhere else.
			if len(s.Links) > 0 || s.Parent.IsValid() || s.SpanContext.TraceState().Len() > 0 {
				t.Errorf("%v: links %v, parent %v", header, s.Links, s.Parent)
			}
		}
		all := w.named("reconcile Order")
		w.putWith("good", nats.Header{"traceparent": {sampled}, "tracestate": {"garbage,,,=\x01" + strings.Repeat("x", 600)}})
		s := w.await("reconcile Order", len(all)+1)
		if last := s[len(s)-1]; len(last.Links) != 1 || last.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("a bad tracestate spoils the traceparent: %v", last.Links)
		}
	})
}

// TestTheHeaderDoesNotSayWhatIsSampled, neither that it is nor that it is not, unless the user wants that.
func TestTheHeaderDoesNotSayWhatIsSampled(t *testing.T) {
	unsampled := sampled[:len(sampled)-1] + "0"
	// A trace id that a sampler by ratio takes always.
	chosen := "00-0af7651916cd43dd0000000000000001-b7ad6b7169203331-01"
	for name, test := range map[string]struct {
		header string
		root   sdktrace.Sampler
		opts   []traces.Option
		want   bool
	}{
		"sampled, none wanted":      {sampled, sdktrace.NeverSample(), nil, false},
		"not sampled, all wanted":   {unsampled, sdktrace.AlwaysSample(), nil, true},
		"trusted and sampled":       {sampled, sdktrace.NeverSample(), []traces.Option{traces.TrustHeaders()}, true},
		"trusted and not sampled":   {unsampled, sdktrace.AlwaysSample(), []traces.Option{traces.TrustHeaders()}, false},
		"the id is chosen":          {chosen, sdktrace.TraceIDRatioBased(1e-9), nil, false},
		"sampled, ratio takes none": {sampled, sdktrace.TraceIDRatioBased(1e-9), nil, false},
		"continued, none wanted":    {sampled, sdktrace.NeverSample(), []traces.Option{traces.ContinueTraces()}, false},
		"continued, all wanted":     {unsampled, sdktrace.AlwaysSample(), []traces.Option{traces.ContinueTraces()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, sdktrace.ParentBased(test.root), test.opts...)
				orders := w.client("Order")
				done := make(chan bool, 1)
				w.run(orders, func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					done <- trace.SpanContextFromContext(ctx).IsSampled()
					return controller.Result{}, nil
				})
				w.putWith("one", nats.Header{"traceparent": {test.header}})
				if got := <-done; got != test.want {
					t.Errorf("sampled: %v", got)
				}
			})
		})
	}
}

// TestAnAttemptThatFailedHandsItsCausesOn, and its span has the error, printable and bounded.
func TestAnAttemptThatFailedHandsItsCausesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample(), traces.ContinueTraces())
		orders := w.client("Order")
		var runs atomic.Int32
		w.run(orders, func(context.Context, controller.Request) (controller.Result, error) {
			switch runs.Add(1) {
			case 1:
				return controller.Result{}, errors.New("bad\x1b[31m " + strings.Repeat("long ", 10_000))
			case 2:
				panic("oh")
			case 3:
				return controller.Result{RequeueAfter: time.Millisecond}, nil
			case 4:
				return controller.Result{}, controller.TerminalError(errors.New("never"))
			}
			return controller.Result{}, nil
		}, controller.WithBackoff(time.Millisecond, time.Millisecond))
		user := w.inSpan("user", func(ctx context.Context) { must(t, orders.Create(ctx, named("one"))) })
		spans := w.await("reconcile Order", 4)
		for i, want := range []struct {
			outcome string
			linked  bool
			status  codes.Code
		}{
			{"failed", true, codes.Error}, {"panicked", true, codes.Error}, {"requeued", true, codes.Unset},
			{"terminal", false, codes.Error},
		} {
			s := spans[i]
			if got := attr(s, "nagi.outcome").AsString(); got != want.outcome || s.Status.Code != want.status {
				t.Errorf("attempt %d: outcome %s, status %v", i+1, got, s.Status)
			}
			if linked := len(s.Links) == 1 && s.SpanContext.TraceID() == user.TraceID(); linked != want.linked {
				t.Errorf("attempt %d: linked: %v", i+1, linked)
			}
			if text := s.Status.Description; len(text) > 4096 || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("attempt %d: the error is %d bytes: %.300q", i+1, len(text), text)
			}
		}
		if n := attr(spans[2], "nagi.attempt").AsInt64(); n != 3 {
			t.Errorf("the third attempt is number %d", n)
		}
	})
}

// TestAReconcileWithoutACauseIsARoot: of a put without a trace, of one that was there before the controller, and though
// Run has been called in a span.
func TestAReconcileWithoutACauseIsARoot(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders := w.client("Order")
		w.inSpan("before", func(ctx context.Context) { must(t, orders.Create(ctx, named("early"))) })
		c, err := controller.New("orders", orders, controller.ReconcilerFunc(nothing), controller.WithObserver(w.tracer))
		must(t, err)
		ctx, main := w.provider.Tracer("user").Start(context.Background(), "main")
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		defer func() { cancel(); must(t, <-done); main.End() }()
		w.await("reconcile Order", 1)
		must(t, orders.Create(t.Context(), named("late")))
		for _, s := range w.await("reconcile Order", 2) {
			if s.Parent.IsValid() || len(s.Links) > 0 || s.SpanContext.TraceID() == main.SpanContext().TraceID() {
				t.Errorf("%v: parent %v, links %v", s.Attributes, s.Parent, s.Links)
			}
		}
	})
}

// TestATraceHasAnEnd: after 32 reconciles, one caused by the other, another trace begins, which is linked.
func TestATraceHasAnEnd(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample(), traces.TrustHeaders())
		orders := w.client("Order")
		w.run(orders, nothing)
		for i, test := range []struct {
			state, want string
			continued   bool
		}{
			{"", "nagi=1", true}, {"x=1,nagi=31", "nagi=32,x=1", true}, {"nagi=32", "", false},
			{"nagi=99999999999999999999", "", false}, {"nagi=-7", "nagi=1", true},
		} {
			w.putWith(fmt.Sprint("order-", i), nats.Header{"traceparent": {sampled}, "tracestate": {test.state}})
			s := w.await("reconcile Order", i+1)[i]
			if got := s.SpanContext.TraceState().String(); got != test.want || s.Parent.IsValid() != test.continued {
				t.Errorf("%q: state %q, parent %v", test.state, got, s.Parent)
			}
			if len(s.Links) != 1 {
				t.Errorf("%q: links %v", test.state, s.Links)
			}
		}
	})
}

// TestAnEventThatAPredicateRefusesIsNoCause of the next reconcile.
func TestAnEventThatAPredicateRefusesIsNoCause(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders := w.client("Order")
		c := w.run(orders, nothing, controller.WithPrimary(controller.WithPredicate(controller.PredicateFuncs{
			UpdateFunc: func(_, now metav1.Object) bool { return now.(*thing).Spec.Size != 1 },
		})))
		obj := named("one")
		must(t, orders.Create(t.Context(), obj))
		w.await("reconcile Order", 1)
		for i := range 3 {
			w.inSpan("user", func(ctx context.Context) {
				obj.Spec.Size = i + 1
				must(t, orders.Update(ctx, obj))
			})
			if i == 0 { // an order of its own, so that the event has been handled
				must(t, orders.Create(t.Context(), named("two")))
				w.await("reconcile Order", 2)
				c.Enqueue("one", controller.OperationResync)
			}
			s := w.await("reconcile Order", 3+i)[2+i]
			if want := min(i, 1); len(s.Links) != want {
				t.Errorf("reconcile %d has the links %v", i, s.Links)
			}
		}
	})
}

// TestAHugeNumberOfPutsIsReconciled, whose traces are kept as far as there is room.
func TestAHugeNumberOfPutsIsReconciled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const keys, puts = 200, 20_000
		w := newWorld(t, sdktrace.NeverSample())
		orders := w.clientWith(entity.Config{Kind: "Order", Bucket: "orders"})
		var linked, most atomic.Int64
		var seen [keys]atomic.Bool
		observer := &counting{Tracer: w.tracer, linked: &linked, most: &most}
		c, err := controller.New("orders", orders, controller.ReconcilerFunc(
			func(_ context.Context, req controller.Request) (controller.Result, error) {
				var i int
				_, err := fmt.Sscanf(req.Key, "order-%d", &i)
				seen[i].Store(true)
				return controller.Result{}, err
			}), controller.WithObserver(observer))
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		defer func() { cancel(); must(t, <-done) }()
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		for i := range puts {
			_, err := w.js.PublishMsgAsync(&nats.Msg{
				Subject: fmt.Sprintf("$KV.orders.order-%d", i%keys), Data: []byte(`{}`),
				Header: nats.Header{"traceparent": {fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", i+1)}},
			}, jetstream.WithStallWait(time.Minute))
			must(t, err)
		}
		<-w.js.PublishAsyncComplete()
		natstest.Eventually(t, "all are reconciled", func() bool {
			stats := c.Stats()
			for i := range seen {
				if !seen[i].Load() {
					return false
				}
			}
			return ready(stats) == 0 && stats.Running == 0 && orders.Informer().Cursor() >= puts
		})
		if linked.Load() == 0 || most.Load() > 16 {
			t.Errorf("%d reconciles have causes, one of them %d", linked.Load(), most.Load())
		}
	})
}

// counting counts the causes of reconciles.
type counting struct {
	*traces.Tracer
	linked, most *atomic.Int64
}

func (c *counting) Begin(ctx context.Context, b controller.Beginning) context.Context {
	if n := int64(len(b.Causes)); n > 0 {
		c.linked.Add(1)
		c.most.Store(max(c.most.Load(), n))
	}
	return c.Tracer.Begin(ctx, b)
}

// TestAKeyThatIsNotReconciledHasNoCauses: while it is suspended they would pile up, and then say nothing of the
// reconcile that comes at last. Nor are those of an event that woke a parked key left to the next.
func TestAKeyThatIsNotReconciledHasNoCauses(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders, workloads := w.client("Order"), w.client("Workload")
		c := w.run(orders, func(_ context.Context, req controller.Request) (controller.Result, error) {
			if req.Operations.Has(controller.OperationManual) {
				return controller.Result{}, nil
			}
			return controller.Result{}, controller.TerminalError(errors.New("never"))
		}, controller.Watches(workloads, func(_ context.Context, obj *thing) ([]string, error) {
			return []string{obj.Name}, nil
		}))
		suspended := named("suspended")
		suspended.Annotations = map[string]string{entity.SuspendAnnotation: "true"}
		w.inSpan("user", func(ctx context.Context) { must(t, orders.Create(ctx, suspended)) })
		must(t, orders.Create(t.Context(), named("parked")))
		w.await("reconcile Order", 1)
		for _, name := range []string{"suspended", "parked"} {
			w.inSpan("user", func(ctx context.Context) { must(t, workloads.Create(ctx, named(name))) })
		}
		if woken := w.await("reconcile Order", 2)[1]; len(woken.Links) != 1 {
			t.Errorf("the event that woke it: %v has the links %v, want one", woken.Attributes, woken.Links)
		}
		must(t, workloads.Create(t.Context(), named("last"))) // its event comes after theirs
		natstest.Eventually(t, "the events have been handled", func() bool {
			return c.Stats().Adds >= 5 && c.Explain("last").State == controller.StateUnknown
		})
		suspended.Annotations = nil
		must(t, orders.Update(t.Context(), suspended))
		c.Enqueue("parked", controller.OperationManual)
		for i, s := range w.await("reconcile Order", 4) {
			if i != 1 && len(s.Links) > 0 {
				t.Errorf("%v has the links %v", s.Attributes, s.Links)
			}
		}
	})
}
