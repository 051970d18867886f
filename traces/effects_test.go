package traces_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/traces"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
)

// path returns the names from the root of a span's causes down to it.
func path(spans tracetest.SpanStubs, s tracetest.SpanStub) string {
	names := []string{s.Name}
	for range spans {
		of := cause(s)
		for _, other := range spans {
			if other.SpanContext.SpanID() == of {
				s = other
				names = append([]string{s.Name}, names...)
				break
			}
		}
	}
	return strings.Join(names, " > ")
}

// hasPath waits until a span of the end of the path has it.
func (w *world) hasPath(want string) {
	w.t.Helper()
	var spans tracetest.SpanStubs
	names := strings.Split(want, " > ")
	natstest.Eventually(w.t, want, func() bool {
		spans = w.all()
		for _, s := range spans {
			if s.Name == names[len(names)-1] && path(spans, s) == want {
				return true
			}
		}
		return false
	})
}

// TestAStatusCarriesTheTraceBack to the owner, which is reconciled because its secondary became ready.
func TestAStatusCarriesTheTraceBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample(), traces.ContinueTraces())
		orders, workloads := w.client("Order"), w.client("Workload")
		w.run(workloads, func(ctx context.Context, req controller.Request) (controller.Result, error) {
			obj, err := workloads.Lister().Get(req.Key)
			if err != nil {
				return controller.Result{}, err
			}
			for len(w.named("reconcile Order")) < 2 && ctx.Err() == nil { // the second is because of the workload itself
				time.Sleep(time.Millisecond)
			}
			obj.Status.Ready = 1
			return controller.Result{}, controller.SetStatus(ctx, obj)
		})
		make := makes(orders, workloads)
		w.run(orders, func(ctx context.Context, req controller.Request) (controller.Result, error) {
			result, err := make(ctx, req)
			if err != nil {
				return result, err
			}
			obj, err := orders.Lister().Get(req.Key)
			if err != nil {
				return result, err
			}
			if made, err := workloads.Lister().Get(req.Key); err == nil {
				obj.Status.Ready = made.Status.Ready
			}
			return result, controller.SetStatus(ctx, obj)
		}, controller.Owns(workloads))
		user := w.inSpan("user", func(ctx context.Context) { must(t, orders.Create(ctx, named("one"))) })
		w.hasPath("user > put Order > reconcile Order > put Workload > reconcile Workload > put Workload record > " +
			"reconcile Order > put Order record")
		for _, s := range w.all() {
			if s.SpanContext.TraceID() != user.TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
		}
	})
}

// TestADeleteIsFollowedThroughTheCascade: what a teardown deletes is torn down in the same trace.
func TestADeleteIsFollowedThroughTheCascade(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders, workloads, volumes := w.client("Order"), w.client("Workload"), w.client("Volume")
		w.run(volumes, nothing)
		w.run(workloads, makes(workloads, volumes), controller.Owns(volumes))
		w.run(orders, makes(orders, workloads), controller.Owns(workloads))
		must(t, orders.Create(t.Context(), named("one")))
		natstest.Eventually(t, "the chain is made", func() bool {
			rec, err := volumes.Record(t.Context(), "one")
			return err == nil && rec.ObservedRevision > 0
		})
		w.inSpan("user", func(ctx context.Context) { must(t, orders.Delete(ctx, "one")) })
		w.hasPath("user > delete Order > reconcile Order > delete Workload > reconcile Workload > delete Volume > " +
			"reconcile Volume")
	})
}

// spansOf makes a span of each request that is made in a trace, as otelhttp does with the same filter.
type spansOf struct {
	tracer trace.Tracer
	base   http.RoundTripper
}

func (s spansOf) RoundTrip(r *http.Request) (*http.Response, error) {
	if !traces.InTrace(r) {
		return s.base.RoundTrip(r)
	}
	ctx, span := s.tracer.Start(r.Context(), r.Method)
	defer span.End()
	return s.base.RoundTrip(r.WithContext(ctx))
}

// configMaps is as much of an API server as it takes to create an object.
func configMaps(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		switch named := strings.HasSuffix(r.URL.Path, "/one"); {
		case r.Method == http.MethodPost:
			body, _ := io.ReadAll(r.Body)
			out.WriteHeader(http.StatusCreated)
			_, _ = out.Write([]byte(strings.Replace(string(body), `"metadata":{`,
				`"metadata":{"uid":"u","resourceVersion":"2",`, 1)))
		case named:
			out.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case r.URL.Query().Get("watch") != "":
			_, _ = fmt.Fprint(out, `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":`+
				`{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			out.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprint(out, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestCallsOfKubernetesAreInTheReconcilesSpan, with an instrumented transport, and the requests of informers are not.
func TestCallsOfKubernetesAreInTheReconcilesSpan(t *testing.T) {
	w := newWorld(t, sdktrace.AlwaysSample())
	client, err := dynamic.NewForConfig(&rest.Config{
		Host: configMaps(t).URL, WrapTransport: func(base http.RoundTripper) http.RoundTripper {
			return spansOf{w.provider.Tracer("http"), base}
		},
	})
	must(t, err)
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	handle, err := kube.New[*corev1.ConfigMap](client, resource, informers.ForResource(resource).Informer())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	informers.Start(ctx.Done())
	defer func() { cancel(); informers.Shutdown() }()
	orders := w.client("Order")
	w.run(orders, func(ctx context.Context, req controller.Request) (controller.Result, error) {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: req.Key}}
		_, err := handle.CreateOrUpdate(ctx, made, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"a": "b"}
			return nil
		})
		return controller.Result{}, err
	}, handle.Owns())
	w.inSpan("user", func(ctx context.Context) { must(t, orders.Create(ctx, named("one"))) })
	w.hasPath("user > put Order > reconcile Order > POST")
	for _, s := range w.all() {
		if s.Name == http.MethodGet && path(w.all(), s) == http.MethodGet {
			t.Error("a request of the informer has a span")
		}
	}
}

// slow is a driver whose Apply starts an operation.
type slow struct{ disks }

func (s *slow) Apply(ctx context.Context, request external.ApplyRequest[spec, int]) (external.Outcome, error) {
	_, err := s.disks.Apply(ctx, request)
	return external.Started("op", time.Millisecond), err
}

func (s *slow) Poll(context.Context, external.Target, string) (external.Progress, error) {
	return external.Progress{Over: true}, nil
}

// failing is a driver that cannot observe.
type failing struct{ disks }

func (*failing) Observe(context.Context, external.Target) (external.Observation[int], error) {
	return external.Observation[int]{}, errors.New("no\x1bway")
}

// TestADriverStaysWhatItIs: one that polls goes on polling, and the polls have spans.
func TestADriverStaysWhatItIs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		if _, polls := traces.Driver(w.tracer, &disks{}).(external.Poller); polls {
			t.Error("a driver that does not poll seems to")
		}
		driver := traces.Driver(w.tracer, &slow{disks{sizes: map[string]int{}}})
		if driver.Kind() != "Disk" {
			t.Errorf("kind %q", driver.Kind())
		}
		target := external.Target{Owner: external.Owner{Kind: "Volume", Key: "one"}, Name: "data"}
		ctx := t.Context()
		if _, err := driver.Observe(ctx, target); err != nil || len(w.all()) > 0 {
			t.Errorf("outside of a trace: %v, %d spans", err, len(w.all()))
		}
		w.inSpan("user", func(ctx context.Context) {
			_, err := driver.(external.Poller).Poll(ctx, target, "op")
			must(t, err)
			_, err = driver.Delete(ctx, external.DeleteRequest[int]{Target: target})
			must(t, err)
			_, err = traces.Driver(w.tracer, &failing{}).Observe(ctx, target)
			if err == nil || err.Error() != "no\x1bway" {
				t.Errorf("the error of the driver became %v", err)
			}
		})
		for _, name := range []string{"poll Disk", "delete Disk", "observe Disk"} {
			s := w.named(name)
			if len(s) != 1 || attr(s[0], "nagi.key").AsString() != "one" || attr(s[0], "nagi.name").AsString() != "data" {
				t.Errorf("%s: %v", name, s)
			}
		}
		if s := w.named("observe Disk")[0]; strings.Contains(s.Status.Description, "\x1b") || s.Status.Description == "" {
			t.Errorf("status %+v", s.Status)
		}
	})
}

// TestAWriteThatFailedSaysSo.
func TestAWriteThatFailedSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders := w.client("Order")
		w.inSpan("user", func(ctx context.Context) {
			must(t, orders.Create(ctx, named("one")))
			if err := orders.Delete(ctx, "one", entity.IfRevision(77)); err == nil {
				t.Error("deleted at the wrong revision")
			}
		})
		if s := w.named("delete Order"); len(s) != 1 || s[0].Status.Description == "" || len(s[0].Events) != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// faulty is a provider whose tracers panic when a reconcile begins.
type faulty struct{ trace.TracerProvider }

type faultyTracer struct{ trace.Tracer }

func (p faulty) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	return faultyTracer{p.TracerProvider.Tracer(name, opts...)}
}

func (faultyTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("oh")
}

// around is an observer with spans of its own, and tells whether each still records at the end.
type around struct {
	trace.Tracer
	records chan bool
}

func (o around) Begin(ctx context.Context, _ controller.Beginning) context.Context {
	ctx, _ = o.Tracer.Start(ctx, "around")
	return ctx
}

func (o around) End(ctx context.Context, _ controller.Ending) {
	span := trace.SpanFromContext(ctx)
	o.records <- span.IsRecording()
	span.End()
}

// TestATracerThatPanicsTouchesNobodysSpan.
func TestATracerThatPanicsTouchesNobodysSpan(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, sdktrace.AlwaysSample())
		orders := w.client("Order")
		o := around{w.provider.Tracer("user"), make(chan bool, 1)}
		w.run(orders, nothing, controller.WithObserver(o), controller.WithObserver(traces.New(faulty{w.provider})))
		must(t, orders.Create(t.Context(), named("one")))
		if !<-o.records {
			t.Error("it ended the span of another observer")
		}
		if s := w.await("around", 1)[0]; len(s.Attributes) > 0 {
			t.Errorf("it has the attributes %v", s.Attributes)
		}
	})
}
