// Package conflict tells a write that another writer overtook from any other failure, for helpers that read, change and
// write an object.
//
// The rule: a helper marks the errors of its own writes with [Of], and tries again only if [Is] finds the mark. A
// conflict that the caller's function returns is about something else, and has no mark.
package conflict

import (
	"errors"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Error is a write that found another state than was read. Only then is it worth to read again: the function of a
// caller may return a conflict too, of something else.
type Error struct{ Err error }

// Error is that of the write.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error of the write.
func (e *Error) Unwrap() error { return e.Err }

// Of marks the error of a write that was overtaken; it returns any other error as it is.
func Of(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return &Error{err}
	}
	return err
}

// Is reports whether err is of a write that was overtaken.
func Is(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Assign overwrites what dst points to by what src points to. Both are pointers of one type.
func Assign[T any](dst, src T) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
}
