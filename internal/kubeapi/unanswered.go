package kubeapi

import (
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unanswered reports whether err is of the way to the API server and not of the API server itself, or of the time that
// has passed. Maybe it is away. Maybe only this request was lost, or the deadline was one of the reconcile; asking the
// API server tells.
func Unanswered(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) &&
		apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.Is(err, context.Canceled)
}

// Server identifies the API server behind an informer in this process. The zero value is none.
type Server uint64

// MarkUnanswered returns err with the server that did not answer, for UnansweredBy.
func MarkUnanswered(err error, by Server) error { return &unansweredError{error: err, by: by} }

// MarkOutdated returns err with the server that a cache is behind of, for UnansweredBy: it is over when the cache is
// known to show what the server has, and until then what waits for it need not be tried.
func MarkOutdated(err error, by Server) error { return &unansweredError{error: err, by: by} }

// AwaitsServer reports whether err is over once an API server is back, or a cache shows again what it has.
func AwaitsServer(err error) bool { return Unanswered(err) || UnansweredBy(err) != 0 }

// UnansweredBy returns the server that an unanswered request was for, or that a cache is behind of; none if err does
// not tell.
func UnansweredBy(err error) Server {
	if marked, ok := errors.AsType[*unansweredError](err); ok {
		return marked.by
	}
	return 0
}

type unansweredError struct {
	error
	by Server
}

func (e *unansweredError) Unwrap() error { return e.error }
