package external

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
)

// ErrUnavailable is wrapped by errors that say that an API does not answer, or not now.
var ErrUnavailable = errors.New("API unavailable")

// UnavailableError is an ErrUnavailable for the API of one kind.
type UnavailableError struct {
	Kind string // of the client or driver; "" where it is not known
	Err  error  // why
}

// Error says which API, and why.
func (e *UnavailableError) Error() string {
	if e.Kind == "" {
		return ErrUnavailable.Error() + ": " + e.Err.Error()
	}
	return "API of " + e.Kind + " unavailable: " + e.Err.Error()
}

// Unwrap returns ErrUnavailable and the reason.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Unavailable marks an error that says that the API is away, and nothing about the resource: too many requests, 502,
// 503, maintenance. Unavailable(nil) is nil. Reconcile knows which API it calls. A reconciler that calls an API itself,
// in a controller that has several external clients, or had them, names it with UnavailableOf. If the error is joined
// (errors.Join) with one that says anything else, no key waits: the other failure is tried again.
func Unavailable(err error) error { return UnavailableOf("", err) }

// UnavailableOf is Unavailable for the API of the client of this kind.
func UnavailableOf(kind string, err error) error {
	if err == nil {
		return nil
	}
	return &UnavailableError{Kind: kind, Err: err}
}

// IsUnavailable reports whether an error of a driver or client says that the API is away: it was marked, or comes from
// the network. A context.Canceled is not one, even if marked. A context.DeadlineExceeded is: if the caller's own
// context may have ended, check that first.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Op != "parse" // the request got no answer
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return true
	}
	_, connection := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	return connection || name
}

// ErrRefused is wrapped by errors that say that the API has done nothing and will not do it either.
var ErrRefused = errors.New("refused")

type refusedError struct{ err error }

func (e *refusedError) Error() string   { return "refused: " + e.err.Error() }
func (e *refusedError) Unwrap() []error { return []error{ErrRefused, e.err} }

// Refused marks an error of Driver.Apply or Driver.Delete that says that the API has done nothing and will not do it
// either: a name that is not allowed, no permission, over quota. The intent is then over, and the next one gets a new
// token. After other errors it is unknown what was done. Refused(nil) is nil.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err: err}
}
