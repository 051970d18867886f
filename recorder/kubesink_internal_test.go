package recorder

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

func TestARefusalIsFinalAgainSomeTimeAfterTheServersReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &kubeSink{}
		if s.mayPass(errForbidden) {
			t.Error("a server that was never away refuses, and is asked again")
		}
		if !s.mayPass(errAway) || !s.mayPass(errForbidden) {
			t.Error("a server that has just started refuses, and is not asked again")
		}
		time.Sleep(kubeStartGrace)
		if s.mayPass(errForbidden) {
			t.Error("a server that has been back for long refuses, and is asked again")
		}
	})
}

func TestAnInternalErrorThatStaysHoldsUpEventsForAFewSecondsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &kubeSink{}
		if !s.mayPass(errInternal) {
			t.Error("the first is final")
		}
		time.Sleep(kubeInternalGrace)
		if s.mayPass(errInternal) {
			t.Error("it is asked again for ever")
		}
		if s.mayPass(errInternal) {
			t.Error("the next event waits as long as the first")
		}
	})
}
