package conflict

import (
	"errors"
	"fmt"
	"testing"

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
		{Of(apierrors.NewConflict(resource, "home", failed)), true},
		{Of(apierrors.NewAlreadyExists(resource, "home")), true},
		{fmt.Errorf("update: %w", Of(apierrors.NewNotFound(resource, "home"))), true},
		{apierrors.NewConflict(resource, "home", failed), false}, // of the caller's function
		{Of(failed), false},
		{Of(nil), false},
	} {
		if got := Is(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
	if err := Of(failed); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if Of(nil) != nil {
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
