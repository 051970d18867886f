package kuberecorder

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
)

var (
	errAway      = errors.New("connection refused")
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", nil)
	errInternal  = apierrors.NewInternalError(errors.New("webhook"))
)

// A server that was away while nothing was recorded may have just started too: the recorder cannot know.
func TestARefusalHoldsUpEventsForAFewSecondsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		for range 2 {
			if !w.mayPass(errForbidden) {
				t.Error("the first is final")
			}
			time.Sleep(refusalGrace)
			for range 2 {
				if w.mayPass(errForbidden) {
					t.Error("it is asked for ever, or the next event waits as long as the first")
				}
				time.Sleep(time.Hour)
			}
			w.taken()
			if w.mayPass(errForbidden) {
				t.Error("a server that has just taken an event refuses another, and is asked again")
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestABusyServersRefusalHoldsUpNothing(t *testing.T) {
	w := &writer{}
	w.taken()
	if !w.mayPass(apierrors.NewTooManyRequests("later", 1)) {
		t.Error("a busy server is not asked again")
	}
	if w.mayPass(errForbidden) {
		t.Error("a busy server is taken for one that has just started")
	}
}

func TestARefusalIsFinalAgainSomeTimeAfterTheServersReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		w.taken()
		if w.mayPass(errForbidden) {
			t.Error("a server that was never away refuses, and is asked again")
		}
		if !w.mayPass(errAway) || !w.mayPass(errForbidden) {
			t.Error("a server that has just started refuses, and is not asked again")
		}
		time.Sleep(startGrace)
		w.taken()
		if w.mayPass(errForbidden) {
			t.Error("a server that has been back for long refuses, and is asked again")
		}
	})
}

func TestAnInternalErrorThatStaysHoldsUpEventsForAFewSecondsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		if !w.mayPass(errInternal) {
			t.Error("the first is final")
		}
		time.Sleep(internalGrace)
		if w.mayPass(errInternal) {
			t.Error("it is asked again for ever")
		}
		if w.mayPass(errInternal) {
			t.Error("the next event waits as long as the first")
		}
	})
}

// scriptedAPI answers requests with these errors, one after the other, and then with success. A nil is success too.
type scriptedAPI struct {
	typedcorev1.EventInterface
	answers []error
	asked   int
}

func (s *scriptedAPI) answer(event *corev1.Event) (*corev1.Event, error) {
	s.asked++
	if len(s.answers) == 0 {
		return event, nil
	}
	err := s.answers[0]
	s.answers = s.answers[1:]
	if err != nil {
		return nil, err
	}
	return event, nil
}

func (s *scriptedAPI) CreateWithEventNamespaceWithContext(
	_ context.Context, event *corev1.Event,
) (*corev1.Event, error) {
	return s.answer(event)
}

func (s *scriptedAPI) PatchWithEventNamespaceWithContext(
	_ context.Context, event *corev1.Event, _ []byte,
) (*corev1.Event, error) {
	return s.answer(event)
}

func TestWhatBecomesOfAnEvent(t *testing.T) {
	events := schema.GroupResource{Resource: "events"}
	exists, notFound := apierrors.NewAlreadyExists(events, "e"), apierrors.NewNotFound(events, "e")
	away := slices.Repeat([]error{errAway}, 1000)
	for name, test := range map[string]struct {
		answers           []error
		patch             bool
		count             int32
		is                func(error) bool // nil: it is written
		published, failed uint64
		asked             int // 0: often
	}{
		"it is taken":                     {nil, false, 1, nil, 1, 0, 1},
		"the server was away":             {[]error{errAway, errAway}, false, 1, nil, 1, 0, 3},
		"the answer to a create was lost": {[]error{errAway, exists}, false, 1, nil, 1, 0, 2},
		"its name is another's":           {[]error{exists}, false, 1, apierrors.IsAlreadyExists, 0, 1, 1},
		// client-go then creates it
		"what it repeats has aged out":           {[]error{notFound}, true, 2, apierrors.IsNotFound, 0, 0, 1},
		"there is no namespace for it":           {[]error{notFound}, false, 1, apierrors.IsNotFound, 0, 1, 1},
		"the server is away for longer than age": {away, false, 1, apierrors.IsTimeout, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger := logr.Discard()
				api := &scriptedAPI{answers: test.answers}
				w := newWriter(t.Context(), api, recorder.Config{MaxAge: time.Minute, Logger: &logger})
				event := &corev1.Event{Count: test.count, LastTimestamp: metav1.Now()}
				var err error
				if test.patch {
					_, err = w.Patch(event, nil)
				} else {
					_, err = w.Create(event)
				}
				if test.is == nil && err != nil || test.is != nil && !test.is(err) {
					t.Errorf("got error %v", err)
				}
				if p, f := w.published.Load(), w.failed.Load(); p != test.published || f != test.failed {
					t.Errorf("%d are published and %d have failed", p, f)
				}
				if test.asked > 0 && api.asked != test.asked {
					t.Errorf("the server was asked %d times, want %d", api.asked, test.asked)
				}
			})
		})
	}
}
