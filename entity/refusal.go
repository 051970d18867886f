package entity

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrFull is what errors.Is finds in the error of a write for which the bucket, its account or the server has no room.
// The write was not applied. It is worth to try again when there is room.
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

// isFinal tells whether a refusal is an answer. The others say that there is nobody to answer now, such as a leader.
func (e *apiError) isFinal() bool {
	switch e.ErrorCode {
	case codeServerFull:
		return true
	case codeStoreFailed:
		return e.Description != "store is closed" // the server stops, or the stream moves
	}
	return e.Code != 503
}

// refused is the error of a write that the server refused for good: what it means, and what to do.
func (b *bucket) refused(natsKey string, e *apiError) error {
	full := func(format string, args ...any) error {
		return fmt.Errorf("writing key %q of bucket %q: %w: %s: %w", natsKey, b.name, ErrFull,
			fmt.Sprintf(format, args...), e)
	}
	switch code := e.ErrorCode; {
	case code == codeStoreFailed && e.Description == "maximum bytes exceeded":
		return full("delete what is not needed, or raise max_bytes (nats stream edit %s --max-bytes=…)", b.stream)
	case code == codeStoreFailed && e.Description == "maximum messages exceeded":
		return full("delete what is not needed, or raise max_msgs (nats stream edit %s --max-msgs=…)", b.stream)
	case code == codeAccountFull:
		return full("the account has reached its JetStream limits: delete what is not needed, or raise them")
	case code == codeServerFull, code == codeMemoryFull, code == codeStorageFull:
		return full("the server has reached its JetStream limits: delete what is not needed, or raise " +
			"max_file_store or max_memory_store")
	case code == codeMessageTooLarge:
		return statusError(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "", natsKey,
			"writing key %q of bucket %q: it is too large: make it smaller, or raise max_msg_size "+
				"(nats stream edit %s --max-msg-size=…): %v", natsKey, b.name, b.stream, e)
	case code == codeSealed:
		return fmt.Errorf("writing key %q of bucket %q: the stream %s is sealed and takes no writes for ever: "+
			"copy it to another bucket: %w", natsKey, b.name, b.stream, e)
	}
	return fmt.Errorf("writing key %q of bucket %q: %w", natsKey, b.name, e)
}
