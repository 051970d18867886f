package source

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/guard"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// UnreadError is about a document that could not be read now.
type UnreadError struct{ err error }

// Error is why.
func (e *UnreadError) Error() string { return e.err.Error() }

// Unwrap returns why.
func (e *UnreadError) Unwrap() error { return e.err }

// Encode makes the document of an object in the cache. Where a transform has left out some of it, the leader may be
// asked: the error is an *UnreadError if that fails, and there is no document if it has another revision by now.
func (s *Primary[T]) Encode(ctx context.Context, obj runtime.Object) (document []byte, err error) {
	typed := obj.(T)
	err = guard.Call(func() (err error) { // the user's types may have methods for it
		document, err = s.port.WholeDocument(ctx, typed)
		return err
	})
	_, panicked := errors.AsType[*guard.Panic](err)
	switch {
	case err == nil || panicked || !entity.IsTransformed(typed) || apierrors.IsInvalid(err):
		return document, err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	}
	return nil, &UnreadError{err}
}
