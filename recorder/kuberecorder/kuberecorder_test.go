package kuberecorder_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/recorder/kuberecorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "1", ResourceVersion: "5"}}
}

// website is a reference to a NATS entity.
func website(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Website", Namespace: namespace, Name: name}
}

func newRecorder(t *testing.T, cfg recorder.Config) *recorder.Recorder {
	t.Helper()
	quiet := logr.Discard()
	cfg.Logger = &quiet
	rec, err := recorder.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rec.RegisterKind("Website")
	t.Cleanup(func() { _ = closeWithin(rec, 10*time.Second) }) // a test that cares has closed it
	return rec
}

func closeWithin(rec *recorder.Recorder, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return rec.Close(ctx)
}

// flush closes the recorder, because Close returns when everything is sent.
func flush(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	if err := closeWithin(rec, 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestKubernetesObjectsReachTheEventsAPIBeforeCloseReturns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		rec := newRecorder(t, recorder.Config{
			JetStream: js, Kubernetes: kuberecorder.New(clientset), Component: "c", Host: "h",
		})
		for range 3 {
			rec.Eventf(pod("web"), corev1.EventTypeWarning, "Failed", "100%% of %s", "it")
		}
		rec.Event(website("shop", "web"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, rec)

		events, err := clientset.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(events.Items) != 1 {
			t.Fatalf("%d events: %+v", len(events.Items), events.Items)
		}
		e := events.Items[0]
		want := corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "5",
		}
		if e.InvolvedObject != want || e.Count != 3 || e.Message != "100% of it" ||
			e.Source.Component != "c" || e.ReportingInstance != "h" {
			t.Errorf("%+v", e)
		}
		s := rec.Stats()
		if s.Kubernetes.Recorded != 3 || s.Kubernetes.Published != 3 || s.NATS.Published != 1 {
			t.Errorf("%+v", s)
		}
		stored, err := rec.List(t.Context(), "", "")
		if err != nil || len(stored) != 1 || stored[0].InvolvedObject.Kind != "Website" {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}

func TestCloseFlushesAFullKubernetesQueue(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		clientset.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, a.(clienttesting.CreateAction).GetObject(), nil // the fake's own store takes milliseconds
		})
		rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
		for i := range 5000 {
			rec.Event(pod(fmt.Sprint("pod-", i)), corev1.EventTypeNormal, "Synced", "done")
		}
		err := closeWithin(rec, 20*time.Second)
		if s := rec.Stats().Kubernetes; err != nil || s.Published < 1000 {
			t.Errorf("%v after %+v", err, s)
		}
		for _, a := range clientset.Actions() {
			create, ok := a.(clienttesting.CreateAction)
			if ok && strings.Contains(create.GetObject().(*corev1.Event).InvolvedObject.Kind, "flush") {
				t.Fatal("an event of our own reached the API")
			}
		}
	})
}

func TestARefusedEventIsCountedAndSaysWhy(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		clientset.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			event := a.(clienttesting.CreateAction).GetObject().(*corev1.Event)
			if event.Reason == "Refused" {
				cause := errors.New("no rule allows it")
				return true, nil, apierrors.NewForbidden(corev1.Resource("events"), event.Name, cause)
			}
			return true, event, nil
		})
		rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
		rec.Event(pod("web"), corev1.EventTypeNormal, "Taken", "done") // so the refusal of the next one is final
		rec.Event(pod("web"), corev1.EventTypeNormal, "Refused", "done")
		flush(t, rec)
		if s := rec.Stats().Kubernetes; s.Published != 1 || s.Failed != 1 || s.Dropped != 0 {
			t.Errorf("%+v", s)
		}
		if err := rec.Err(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `Pod "web"`) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestAnAPIServerThatDoesNotAnswerHoldsUpNeitherRecordingNorClose(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		clientset.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no route to host")
		})
		rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
		begin := time.Now()
		for i := range 3000 {
			rec.Event(pod(fmt.Sprint("pod-", i)), corev1.EventTypeNormal, "Synced", "done")
		}
		err := closeWithin(rec, 500*time.Millisecond)
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if s := rec.Stats().Kubernetes; s.Dropped == 0 || s.Published != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCloseEndsARequestThatHangs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		arrived, ended := make(chan struct{}), make(chan struct{})
		clientset, err := kubernetes.NewForConfig(&rest.Config{Transport: transport(func(r *http.Request) error {
			close(arrived)
			<-r.Context().Done()
			close(ended)
			return r.Context().Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
		rec.Event(pod("web"), corev1.EventTypeNormal, "Synced", "done")
		<-arrived
		begin := time.Now()
		if err := closeWithin(rec, 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(begin); took != 100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		select {
		case <-ended:
		default:
			t.Error("the request outlives the recorder")
		}
	})
}

// transport has no network: a request ends with the error of the function.
type transport func(*http.Request) error

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return nil, f(r) }

func TestCloseLeavesNoGoroutineAndNoSubscription(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		nc, js := natstest.Connect(t, srv.URL())
		// Start another recorder first, for what stays: the server's goroutines of the stream, the connection's
		// subscription for replies.
		first := newRecorder(t, recorder.Config{JetStream: js})
		first.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, first)
		subscriptions, before := nc.NumSubscriptions(), goleak.IgnoreCurrent()
		for range 20 { // each lives for a moment, so that what starts late is caught
			rec := newRecorder(t, recorder.Config{JetStream: js, Kubernetes: kuberecorder.New(fake.NewClientset())})
			rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
			rec.Event(pod("web"), corev1.EventTypeNormal, "Synced", "done")
			flush(t, rec)
		}
		if n := nc.NumSubscriptions(); n != subscriptions {
			t.Errorf("%d subscriptions are left", n-subscriptions)
		}
		goleak.VerifyNone(t, before)
	})
}
