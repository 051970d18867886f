package entity

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrRefused is what errors.Is finds in the error of a write that the server refused for good, or that the user has no
// permission for; then apierrors.IsForbidden holds, too. The write was not applied.
var ErrRefused = errors.New("refused")

// ErrFull is what errors.Is finds in the error of a write for which the bucket, its account or the server has no room.
// It is an ErrRefused. The write is worth to be tried again when there is room.
var ErrFull = errors.New("no room")

// Refusals that tell of a limit.
const (
	codeAccountFull     jetstream.ErrorCode = 10002
	codeServerFull      jetstream.ErrorCode = 10023
	codeMemoryFull      jetstream.ErrorCode = 10028
	codeStorageFull     jetstream.ErrorCode = 10047
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeStoreFailed     jetstream.ErrorCode = 10077 // its description says why
	codeSealed          jetstream.ErrorCode = 10109
)

// isFinal tells whether a refusal is an answer. The others say that no server can answer now, such as a leader.
func (e *apiError) isFinal() bool {
	switch e.ErrorCode {
	case codeServerFull:
		return true
	case codeStoreFailed:
		// Others may come from one replica of several, or from a server that stops.
		return e.Description == bytesExceeded || e.Description == messagesExceeded ||
			e.Description == perSubjectExceeded || e.Description == storedTooLarge
	}
	return e.Code != 503
}

// The descriptions of codeStoreFailed that tell of a limit.
const (
	bytesExceeded      = "maximum bytes exceeded"
	messagesExceeded   = "maximum messages exceeded"
	perSubjectExceeded = "maximum messages per subject exceeded"
	storedTooLarge     = "message too large"
)

// Is makes errors.Is find ErrRefused, and of a bucket that does not exist what package jetstream says then.
func (e *apiError) Is(target error) bool {
	if target == jetstream.ErrBucketNotFound {
		return e.ErrorCode == codeStreamNotFound
	}
	return target == ErrRefused && e.isFinal()
}

// owed is what not to do where something is full, however pressing it is.
const owed = "do not purge or remove keys or streams of status buckets, whose records are teardowns that are owed"

// refused is the error of a write that the server refused for good: what it means, and what to do.
func (b *bucket) refused(natsKey string, e *apiError) error {
	full := func(format string, args ...any) error {
		return fmt.Errorf("writing key %q of bucket %q: %w: %s: %w", natsKey, b.name, ErrFull,
			fmt.Sprintf(format, args...), e)
	}
	switch code := e.ErrorCode; {
	case code == codeStoreFailed && e.Description == bytesExceeded:
		return full("raise max_bytes (nats stream edit %s --max-bytes=…), a delete needs room, too; %s", b.stream, owed)
	case code == codeStoreFailed && e.Description == messagesExceeded:
		return full("raise max_msgs (nats stream edit %s --max-msgs=…), a delete needs room, too; %s", b.stream, owed)
	case code == codeAccountFull:
		return full("the account has reached its JetStream limits: raise max_file or max_mem of it; %s",
			owed)
	case code == codeServerFull, code == codeMemoryFull, code == codeStorageFull:
		return full("the server has reached its JetStream limits: raise max_file_store or max_memory_store, "+
			"or give it a larger disk; %s", owed)
	case code == codeMessageTooLarge:
		return &tooLargeRefused{cause: e, StatusError: statusError(
			http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "", natsKey,
			"writing key %q of bucket %q: it is too large: make it smaller, or raise max_msg_size "+
				"(nats stream edit %s --max-msg-size=…): %v", natsKey, b.name, b.stream, e)}
	case code == codeSealed:
		return fmt.Errorf("writing key %q of bucket %q: the stream %s is sealed and takes no writes for ever: "+
			"copy it to another bucket: %w", natsKey, b.name, b.stream, e)
	}
	return fmt.Errorf("writing key %q of bucket %q: %w", natsKey, b.name, e)
}

// tooLargeRefused is an apierrors.APIStatus, and an ErrRefused.
type tooLargeRefused struct {
	*apierrors.StatusError
	cause *apiError
}

func (e *tooLargeRefused) Unwrap() []error { return []error{e.StatusError, e.cause} }

// denied is the error of a write that the server denied. If the write may have been applied all the same, it is
// ErrOutcomeUnknown.
func (b *bucket) denied(natsKey string, denied *denials.Error, inDoubt bool) error {
	if inDoubt {
		return newUnknownOutcome(b.name, natsKey, denied)
	}
	return &forbiddenWrite{newForbidden(natsKey, fmt.Sprintf("writing key %q of bucket %q: ", natsKey, b.name), denied)}
}

// forbidden is an apierrors.APIStatus for which IsForbidden holds. errors.Is finds nats.ErrPermissionViolation in it.
type forbidden struct {
	*apierrors.StatusError
	cause *denials.Error
}

func newForbidden(natsKey, doing string, cause *denials.Error) *forbidden {
	return &forbidden{cause: cause, StatusError: statusError(
		http.StatusForbidden, metav1.StatusReasonForbidden, "", natsKey, "%s%v", doing, cause)}
}

func (e *forbidden) Unwrap() []error { return []error{e.StatusError, e.cause} }

// forbiddenWrite is forbidden for a write that was not applied, and an ErrRefused.
type forbiddenWrite struct{ *forbidden }

func (e *forbiddenWrite) Is(target error) bool { return target == ErrRefused }
