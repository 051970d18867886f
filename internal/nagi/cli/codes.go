package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/conn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The exit codes.
const (
	CodeFailed      = 1 // anything else
	CodeUsage       = 2 // bad flags, arguments, files or documents
	CodeNotFound    = 3
	CodeNotSo       = 4 // something is not well, a wait timed out, there is a difference
	CodeRefused     = 5 // it has changed meanwhile, or is not as the command says
	CodeForbidden   = 6
	CodeUnreachable = 7 // no server, no controller, or no answer in time
)

// coded is an error with the code that the process ends with. A silent one has said all that there is to say.
type coded struct {
	code   int
	err    error
	silent bool
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

// withCode is an error with an exit code; nil for nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code: code, err: err}
}

func usage(err error) error { return withCode(CodeUsage, err) }

// notSo is how a command ends that has printed that something is not as it should be.
func notSo() error { return &coded{code: CodeNotSo, err: errors.New("not so"), silent: true} }

func isSilent(err error) bool {
	c, ok := errors.AsType[*coded](err)
	return ok && c.silent
}

// codeOf is the exit code of an error; 0 of none.
func codeOf(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	if c, ok := errors.AsType[*coded](err); ok {
		return c.code
	}
	if refused, ok := errors.AsType[*ask.Refused](err); ok {
		return codeOfAnswer(refused.Body.Code)
	}
	if _, changing := errors.AsType[*ask.Changing](err); changing {
		return CodeRefused
	}
	_, unconnected := errors.AsType[*conn.Unconnected](err)
	_, unanswered := errors.AsType[*ask.NoAnswer](err)
	switch {
	case apierrors.IsForbidden(err), errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization):
		return CodeForbidden
	case unconnected, unanswered, apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return CodeUnreachable
	case apierrors.IsNotFound(err), errors.Is(err, jetstream.ErrKeyNotFound),
		errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return CodeNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return CodeRefused
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), isUsage(err):
		return CodeUsage
	}
	return CodeFailed
}

// isUsage recognises what cobra says of commands and arguments, for which it has no types.
func isUsage(err error) bool {
	for _, of := range []string{
		"unknown command", "accepts ", "requires at least", "required flag", "if any flags in the group",
	} {
		if strings.HasPrefix(err.Error(), of) {
			return true
		}
	}
	return false
}

func codeOfAnswer(code int) int {
	switch code {
	case http.StatusBadRequest, http.StatusForbidden:
		return CodeUsage
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusConflict:
		return CodeRefused
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return CodeUnreachable
	}
	return CodeFailed
}
