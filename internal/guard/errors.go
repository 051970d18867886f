package guard

import (
	"errors"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Errors returns the parts of a list of errors, as errors.Join or an aggregate makes one. An error that wraps
// several others otherwise, such as its kind and its cause, is one error.
func Errors(err error) []error {
	var parts []error
	for inner := err; inner != nil && parts == nil; inner = errors.Unwrap(inner) {
		parts = partsOf(inner)
	}
	if parts == nil {
		return []error{err}
	}
	var all []error
	for _, part := range parts {
		all = append(all, Errors(part)...)
	}
	return all
}

// partsOf returns the parts of an error that says nothing but what its parts say: of an aggregate, or one part a line,
// which is the documented format of errors.Join. It returns nil of any other error.
func partsOf(err error) []error {
	if aggregate, ok := err.(utilerrors.Aggregate); ok {
		return aggregate.Errors()
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	parts := several.Unwrap()
	lines := make([]string, len(parts))
	for i, part := range parts {
		if part == nil {
			return nil
		}
		lines[i] = part.Error()
	}
	if len(parts) == 0 || err.Error() != strings.Join(lines, "\n") {
		return nil
	}
	return parts
}
