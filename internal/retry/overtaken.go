// For helpers that read, change and write an object: a write that another writer overtook, apart from other failures.
//
// The rule: a helper marks the errors of its own writes with [Overtaken], and tries again only if [IsOvertaken] finds
// the mark. A conflict that the caller's function returns is about something else, and has no mark. Before each try but
// the first again it pauses ([Pause]), longer each time, so that however many others write each gets its turn.

package retry

import (
	"context"
	"errors"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Error is a write that found another state than was read. Only then is it worth to read again: the function of a
// caller may return a conflict too, of something else.
type Error struct{ Err error }

// Error is that of the write.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error of the write.
func (e *Error) Unwrap() error { return e.Err }

// Overtaken marks the error of a write that was overtaken; it returns any other error as it is.
func Overtaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return &Error{err}
	}
	return err
}

// IsOvertaken reports whether err is of a write that was overtaken.
func IsOvertaken(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// mostPauses bounds how often a write is tried again: for about ten seconds. With longer pauses those who wait long
// would seldom come before those who have just begun.
const mostPauses = 50

var pauses = NewBackoff(time.Millisecond, 250*time.Millisecond)

// Pause waits before a write that was overtaken is tried again, for the time that belongs to so many tries before. The
// first time is at once. It returns false if there were too many, or if ctx ends meanwhile.
func Pause(ctx context.Context, tries int) bool {
	if tries >= mostPauses || ctx.Err() != nil {
		return false
	}
	if tries == 0 {
		return true
	}
	timer := time.NewTimer(pauses.Delay(tries))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Assign overwrites what dst points to by what src points to. Both are pointers of one type.
func Assign[T any](dst, src T) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
}
