package kuberecorder

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	errAway      = errors.New("connection refused")
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", nil)
	errInternal  = apierrors.NewInternalError(errors.New("webhook"))
)

// A server that was away while nobody recorded anything may just have started too, for all the recorder knows.
func TestARefusalHoldsUpEventsForAFewSecondsOnly(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
