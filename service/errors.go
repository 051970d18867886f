package service

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The codes of errors, in the header Nats-Service-Error-Code. They mean what they mean in HTTP.
const (
	codeBadRequest = 400
	codeElsewhere  = 403 // the key is in another namespace than the subject says
	codeNotFound   = 404
	codeConflict   = 409 // the key or the brake is not as the request assumes
	codeTooLarge   = 413 // the answer does not fit into a message
	codeTooMany    = 429
	codeInternal   = 500
	codeNotThere   = 501 // this controller has no such thing
	codeNotDone    = 503 // this replica does not lead, or has too much to do: ask again
)

// Error is the body of an answer that is an error. The headers Nats-Service-Error and Nats-Service-Error-Code say the
// same.
type Error struct {
	Code        int    `json:"code"`
	Description string `json:"description"`
	// Leader is who led when the lease was read last: host, process and a random part. It is there if the code is 503,
	// as this replica does not lead, and the request was about all keys.
	Leader string `json:"leader,omitempty"`
	// Brake is what the brake holds, if a request named something else.
	Brake *Brake `json:"brake,omitempty"`
	// Restorable is how many missing documents can be restored, if a request named something else.
	Restorable *int `json:"restorable,omitempty"`
	// Deletable is how many orphans can be deleted, if a request expected another number or named another list.
	Deletable *int `json:"deletable,omitempty"`
	// Adoptable is how many orphans can be adopted, likewise.
	Adoptable *int `json:"adoptable,omitempty"`
	// List is the id of the list of orphans, or of what the brake holds, if a request named another one.
	List string `json:"list,omitempty"`
}

// Error implements error: the code and the description.
func (e *Error) Error() string { return strconv.Itoa(e.Code) + ": " + e.Description }

func refuse(code int, format string, args ...any) *Error {
	return &Error{Code: code, Description: fmt.Sprintf(format, args...)}
}

// asError is what is told of an error. A panic's stack goes to the log alone.
func asError(err error) *Error {
	if told, ok := errors.AsType[*Error](err); ok {
		return told
	}
	if p, ok := errors.AsType[*guard.Panic](err); ok {
		return refuse(codeInternal, "%s", printable.Message(p.Message()))
	}
	code := codeInternal
	switch {
	case apierrors.IsNotFound(err):
		code = codeNotFound
	case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsAlreadyExists(err):
		code = codeConflict
	}
	return refuse(code, "%v", printable.Error(err))
}
