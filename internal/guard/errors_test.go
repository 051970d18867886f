package guard

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/nagi-runtime/nagi/external"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// TestOfSeveralErrorsEachIsLookedAt, but one that wraps its kind and its cause is one.
func TestOfSeveralErrorsEachIsLookedAt(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	wrapped := fmt.Errorf("%w: %w", a, b)
	for name, test := range map[string]struct {
		err  error
		want []error
	}{
		"one":   {a, []error{a}},
		"kinds": {wrapped, []error{wrapped}},
		"joined": {
			fmt.Errorf("all: %w", errors.Join(a, fmt.Errorf("some: %w", errors.Join(b, wrapped)))), []error{a, b,
				wrapped},
		},
		"aggregate": {utilerrors.NewAggregate([]error{a, errors.Join(b, c)}), []error{a, b, c}},
		"marked":    {external.Unavailable(errors.Join(a, b)), []error{external.Unavailable(errors.Join(a, b))}},
	} {
		if got := Errors(test.err); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
