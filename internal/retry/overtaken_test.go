package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyAMarkedWriteWasOvertaken(t *testing.T) {
	resource := schema.GroupResource{Resource: "sites"}
	failed := errors.New("failed")
	for _, test := range []struct {
		err  error
		want bool
	}{
		{Overtaken(apierrors.NewConflict(resource, "home", failed)), true},
		{Overtaken(apierrors.NewAlreadyExists(resource, "home")), true},
		{fmt.Errorf("update: %w", Overtaken(apierrors.NewNotFound(resource, "home"))), true},
		{apierrors.NewConflict(resource, "home", failed), false}, // of the caller's function
		{Overtaken(failed), false},
		{Overtaken(nil), false},
	} {
		if got := IsOvertaken(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
	if err := Overtaken(failed); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if Overtaken(nil) != nil {
		t.Error("no error became one")
	}
}

func TestAssignOverwritesTheTarget(t *testing.T) {
	a, b := &struct{ n int }{1}, &struct{ n int }{2}
	Assign(a, b)
	if a.n != 2 {
		t.Error("it did not")
	}
}

func TestPausesGrowAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tries := 0
		for Pause(t.Context(), tries) {
			if took := time.Since(start); tries == 0 && took != 0 || tries == 1 && (took == 0 || took > 10*time.Millisecond) {
				t.Errorf("try %d again after %v", tries+1, took)
			}
			tries++
		}
		if took := time.Since(start); tries != mostPauses || took < 5*time.Second || took > 20*time.Second {
			t.Errorf("%d tries in %v", tries, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start = time.Now()
		if Pause(ctx, mostPauses-1) || time.Since(start) != 100*time.Millisecond || Pause(ctx, 0) {
			t.Errorf("a pause outlived its context: %v", time.Since(start))
		}
	})
}
