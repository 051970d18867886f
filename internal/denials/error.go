package denials

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// Error says that the server denies a subject to the user of the connection. errors.Is finds
// nats.ErrPermissionViolation in it.
type Error struct {
	Subject      string
	Subscription bool   // to subscribe, not to publish
	Grant        string // what the user must be allowed to publish or subscribe to
	// Dropped is true if the server has certainly not taken the message that was sent. It may have taken it if the
	// answer's inbox is denied, or if something else was under way on the same subject.
	Dropped bool
}

// Error names the subject and says what to do.
func (e *Error) Error() string {
	if e.Subscription {
		// Without the inbox, which is often another one: the same cause makes the same text.
		return "the server refuses to subscribe to the inbox: " + e.remedy()
	}
	return fmt.Sprintf("the server refuses to publish to %s: grant the user the permission to publish to it", e.Grant)
}

// remedy is what helps a connection whose inbox is denied. The inbox that all share is not the first advice: who may
// subscribe to it hears the answers to everybody.
func (e *Error) remedy() string {
	const grant = "grant the user the permission to subscribe to "
	if e.Grant != nats.InboxPrefix+">" {
		return grant + e.Grant
	}
	return "connect with an inbox prefix that the user may subscribe to, as its permissions have it (InboxPrefix of " +
		"manager.Config, nats.CustomInboxPrefix, or --inbox-prefix of the nats command line); or " + grant + e.Grant +
		", where it hears the answers to everybody"
}

// Unwrap returns nats.ErrPermissionViolation.
func (e *Error) Unwrap() error { return nats.ErrPermissionViolation }
