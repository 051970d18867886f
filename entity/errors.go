package entity

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ErrOutcomeUnknown is what errors.Is finds in the error of a write whose acknowledgement was lost, if the leader could
// not tell whether the write was applied. It was applied, was not, or still will be. Read the key again before deciding
// anything. apierrors.IsTimeout holds for the error too.
var ErrOutcomeUnknown = errors.New("outcome unknown")

func statusError(code int32, reason metav1.StatusReason, kind, key, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
		Details: &metav1.StatusDetails{Kind: kind, Name: key},
	}}
}

func newNotFound(kind, bucket, key string) error {
	return statusError(http.StatusNotFound, metav1.StatusReasonNotFound, kind, key,
		"%s %q not found in bucket %q", kind, key, bucket)
}

func newAlreadyExists(kind, bucket, key string, revision uint64) error {
	return statusError(http.StatusConflict, metav1.StatusReasonAlreadyExists, kind, key,
		"%s %q already exists in bucket %q at revision %d", kind, key, bucket, revision)
}

func newConflict(kind, bucket, key, why string) error {
	return statusError(http.StatusConflict, metav1.StatusReasonConflict, kind, key,
		"writing %s %q in bucket %q: %s; read it again and apply your change to that", kind, key, bucket, why)
}

func newInvalid(kind, bucket, key, path, why string) error {
	err := apierrors.NewInvalid(schema.GroupKind{Kind: kind}, key, field.ErrorList{{
		Type: field.ErrorTypeInvalid, Field: path, BadValue: key, Detail: why,
	}})
	err.ErrStatus.Message = fmt.Sprintf("%s %q of bucket %q is invalid: %s: %s", kind, key, bucket, path, why)
	return err
}

func newTooLarge(kind, bucket, key string, size, limit int, what string) error {
	return statusError(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, kind, key,
		"%s of %s %q for bucket %q has %d bytes, at most %d are taken: "+
			"make it smaller, or raise max_payload of the server and Config.MaxDocumentBytes",
		what, kind, key, bucket, size, limit)
}

func newUnavailable(kind, key, format string, args ...any) error {
	return statusError(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, kind, key, format, args...)
}

// unknownOutcome is the error in which errors.Is finds ErrOutcomeUnknown. It is an apierrors.APIStatus.
type unknownOutcome struct {
	*apierrors.StatusError
	cause error
}

func newUnknownOutcome(bucket, natsKey string, cause error) error {
	return &unknownOutcome{
		StatusError: statusError(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "", natsKey,
			"writing key %q of bucket %q: no acknowledgement, and the leader could not tell whether it was applied "+
				"(outcome unknown); read the key before you write it again: %v",
			natsKey, bucket, cause),
		cause: cause,
	}
}

func (e *unknownOutcome) Is(target error) bool { return target == ErrOutcomeUnknown }
func (e *unknownOutcome) Unwrap() []error      { return []error{e.StatusError, e.cause} }
