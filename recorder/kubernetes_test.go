package recorder_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/nagi-runtime/nagi/recorder"
)

// fakeSink keeps the events that it gets. It knows the kinds of client-go's scheme.
type fakeSink struct {
	counts             recorder.Counts
	lastErr, closedErr error

	mu      sync.Mutex
	started []recorder.Config
	events  []corev1.Event
	closed  int
}

func (s *fakeSink) Scheme() *runtime.Scheme { return scheme.Scheme }

func (s *fakeSink) Start(cfg recorder.Config) recorder.KubernetesEvents {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, cfg)
	return s
}

func (s *fakeSink) Record(
	about *corev1.ObjectReference, annotations map[string]string, eventtype, reason, message string,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event := corev1.Event{InvolvedObject: *about, Type: eventtype, Reason: reason, Message: message}
	event.Annotations = annotations
	s.events = append(s.events, event)
}

func (s *fakeSink) Counts() recorder.Counts { return s.counts }
func (s *fakeSink) Err() error              { return s.lastErr }

func (s *fakeSink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return s.closedErr
}

func service() *corev1.Service {
	s := &corev1.Service{}
	s.Namespace, s.Name, s.UID = "shop", "web", "1"
	return s
}

func TestEventsAboutKubernetesObjectsAndNoOthersGoToTheSink(t *testing.T) {
	t.Parallel()
	sink := &fakeSink{}
	rec := newRecorder(t, recorder.Config{Kubernetes: sink})
	rec.Event(website("shop", "web"), corev1.EventTypeNormal, "Synced", "done")
	trace := map[string]string{"trace": "42"}
	rec.AnnotatedEventf(service(), trace, corev1.EventTypeWarning, "Failed", "100%% of %s", "it")
	flush(t, rec)

	if len(sink.events) != 1 {
		t.Fatalf("%d events: %+v", len(sink.events), sink.events)
	}
	e := sink.events[0]
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web", UID: "1"}
	if e.InvolvedObject != want || e.Type != corev1.EventTypeWarning || e.Reason != "Failed" ||
		e.Message != "100% of it" || e.Annotations["trace"] != "42" {
		t.Errorf("%+v", e)
	}
}

func TestASinkIsStartedOnceWithTheDefaultsFilledIn(t *testing.T) {
	t.Parallel()
	sink := &fakeSink{}
	newRecorder(t, recorder.Config{Kubernetes: sink, Component: "c", Host: "h"})
	if len(sink.started) != 1 {
		t.Fatalf("started %d times", len(sink.started))
	}
	cfg := sink.started[0]
	if cfg.Component != "c" || cfg.Host != "h" || cfg.MaxAge != recorder.DefaultMaxAge || cfg.Logger == nil ||
		cfg.Scheme != scheme.Scheme || cfg.Correlator.Clock == nil {
		t.Errorf("%+v", cfg)
	}
}

func TestTheSchemeOfTheConfigGoesBeforeThatOfTheSink(t *testing.T) {
	t.Parallel()
	sink, own := &fakeSink{}, runtime.NewScheme()
	rec := newRecorder(t, recorder.Config{Kubernetes: sink, Scheme: own})
	if sink.started[0].Scheme != own {
		t.Error("the sink was started with another scheme")
	}
	rec.Event(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, corev1.EventTypeNormal, "R", "m")
	if len(sink.events) != 0 {
		t.Errorf("the scheme of the sink knew the kind: %+v", sink.events)
	}
}

func TestASinkIsClosedOnceAndGetsNoEventAfterThat(t *testing.T) {
	t.Parallel()
	lost := errors.New("not all sent")
	sink := &fakeSink{closedErr: lost}
	rec := newRecorder(t, recorder.Config{Kubernetes: sink})
	for range 2 {
		if err := rec.Close(t.Context()); !errors.Is(err, lost) {
			t.Errorf("Close: %v", err)
		}
	}
	rec.Event(service(), corev1.EventTypeNormal, "Late", "m")
	if sink.closed != 1 || len(sink.events) != 0 {
		t.Errorf("closed %d times, then recorded %+v", sink.closed, sink.events)
	}
}

func TestWhatASinkCountsAndReportsIsInStatsAndErr(t *testing.T) {
	t.Parallel()
	forbidden := errors.New("forbidden")
	sink := &fakeSink{counts: recorder.Counts{Published: 5, Failed: 3, Dropped: 2}, lastErr: forbidden}
	rec := newRecorder(t, recorder.Config{Kubernetes: sink})
	rec.Event(service(), corev1.EventTypeNormal, "Synced", "m")
	flush(t, rec)
	rec.Event(service(), corev1.EventTypeNormal, "Late", "m") // the recorder drops it
	want := recorder.Counts{Recorded: 2, Published: 5, Failed: 3, Dropped: 3}
	if got := rec.Stats().Kubernetes; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !errors.Is(rec.Err(), forbidden) {
		t.Errorf("Err: %v", rec.Err())
	}
}
