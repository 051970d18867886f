package entity

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ErrOutcomeUnknown is what errors.Is finds in the error of a write whose acknowledgement was lost, if the leader could
// not tell whether the write was applied. It was applied, was not, or still will be. Read the key again before deciding
// anything. apierrors.IsTimeout holds for the error too.
var ErrOutcomeUnknown = errors.New("outcome unknown")

// statusError makes an error that is shown to others than who wrote what it is about: its text is cleaned and bounded.
// args that are foreign and part of a sentence are printable.Quoted, so that a long one leaves room for the rest.
func statusError(code int32, reason metav1.StatusReason, kind, key, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: printable.Message(fmt.Sprintf(format, args...)),
		Details: &metav1.StatusDetails{Kind: kind, Name: printable.Text(key)},
	}}
}

func newNotFound(kind, bucket, key string) error {
	return statusError(http.StatusNotFound, metav1.StatusReasonNotFound, kind, key,
		"%s %s not found in bucket %q", kind, printable.Quote(key), bucket)
}

func newAlreadyExists(kind, bucket, key string, revision uint64) error {
	return statusError(http.StatusConflict, metav1.StatusReasonAlreadyExists, kind, key,
		"%s %s already exists in bucket %q at revision %d", kind, printable.Quote(key), bucket, revision)
}

func newConflict(kind, bucket, key, why string) error {
	return statusError(http.StatusConflict, metav1.StatusReasonConflict, kind, key,
		"writing %s %s in bucket %q: %s; read it again and apply your change to that",
		kind, printable.Quote(key), bucket, why)
}

func newInvalid(kind, bucket, key, path, why string) error {
	shown, why := printable.Text(key), printable.Message(why)
	err := apierrors.NewInvalid(schema.GroupKind{Kind: kind}, shown, field.ErrorList{{
		Type: field.ErrorTypeInvalid, Field: path, BadValue: shown, Detail: why,
	}})
	err.ErrStatus.Message = printable.Message(
		fmt.Sprintf("%s %s of bucket %q is invalid: %s: %s", kind, printable.Quote(key), bucket, path, why))
	return err
}

func newTooLarge(kind, bucket, key string, size, limit int, what string) error {
	return statusError(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, kind, key,
		"%s of %s %s for bucket %q has %d bytes, at most %d are taken: "+
			"make it smaller, or raise max_payload of the server and Config.MaxDocumentBytes",
		what, kind, printable.Quote(key), bucket, size, limit)
}

func newUnavailable(kind, key, format string, args ...any) error {
	return statusError(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, kind, key, format, args...)
}

// ErrNotCached is what errors.Is finds in the error of a read of a Lister that cannot tell, because the caches of a
// controller with WithSlotCaches hold what belongs to the keys of this replica alone. Client.Get reads any document,
// and Client.List all of them. apierrors.IsServiceUnavailable holds for the error too.
var ErrNotCached = errors.New("not in the caches of this replica")

type notCached struct{ *apierrors.StatusError }

func newNotCached(kind, key string) error {
	what := "all of it"
	if key != "" {
		what = printable.Quote(key)
	}
	return &notCached{statusError(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, kind, key,
		"the cache of kind %s does not have %s: it holds what belongs to the keys of this replica alone "+
			"(WithSlotCaches). Read it with the client itself, or leave that option out", kind, what)}
}

func (e *notCached) Is(target error) bool { return target == ErrNotCached }
func (e *notCached) Unwrap() error        { return e.StatusError }

// unknownOutcome is the error in which errors.Is finds ErrOutcomeUnknown. It is an apierrors.APIStatus.
type unknownOutcome struct {
	*apierrors.StatusError
	cause error
}

func newUnknownOutcome(bucket, natsKey string, cause error) error {
	return &unknownOutcome{
		StatusError: statusError(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "", natsKey,
			"writing key %s of bucket %q: no acknowledgement, and the leader could not tell whether it was applied "+
				"(outcome unknown); read the key before you write it again: %v",
			printable.Quote(natsKey), bucket, cause),
		cause: cause,
	}
}

// Because is the reason of the cause, for package notify: which write was not answered is no news.
func (e *unknownOutcome) Because() string { return notify.Reason(e.cause) }

func (e *unknownOutcome) Is(target error) bool { return target == ErrOutcomeUnknown }
func (e *unknownOutcome) Unwrap() []error      { return []error{e.StatusError, e.cause} }
