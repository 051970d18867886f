package entity

import (
	"cmp"
	"errors"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// InvalidDocument says of a document that does not decode, or that no record can hold, why and where. It has no values
// of the document: who may read records is not always who may read documents.
type InvalidDocument struct {
	// Revision is that of the document, in the stream that Stream names.
	Revision uint64 `json:"revision"`
	Stream   string `json:"stream,omitempty"`
	// Path is where in the document the mistake is, such as "spec.pages[2].title". Keys of maps show as "*". It is
	// missing if the type says nothing of the place.
	Path string `json:"path,omitempty"`
	// Line and Column count from 1, columns in characters. They are missing if the mistake has no place.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Reason is a sentence for people.
	Reason string `json:"reason"`
}

// invalidDocumentError is what newInvalid returns, and where the mistake is.
type invalidDocumentError struct {
	*apierrors.StatusError
	flaw *flaw
}

func (e *invalidDocumentError) Unwrap() []error { return []error{e.StatusError, e.flaw} }

// newInvalidDocument is newInvalid for a document that does not decode.
func newInvalidDocument(kind, bucket, key string, why error) error {
	f, ok := errors.AsType[*flaw](why)
	if !ok {
		return newInvalid(kind, bucket, key, wholeDocument, why.Error())
	}
	status, _ := errors.AsType[*apierrors.StatusError](
		newInvalid(kind, bucket, key, cmp.Or(f.path, wholeDocument), f.why))
	return &invalidDocumentError{StatusError: status, flaw: f}
}

// WhyInvalid returns what the error of a decode says about a document: the error of Get and Lister.Get, of
// Hooks.Invalid, or of natsinformer's Informer. It does not know the revision and the stream.
func WhyInvalid(err error) InvalidDocument {
	if err == nil {
		return InvalidDocument{}
	}
	if f, ok := errors.AsType[*flaw](err); ok {
		return InvalidDocument{Path: f.path, Line: f.line, Column: f.column, Reason: printable.Message(f.why)}
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return InvalidDocument{Reason: printable.Message(err.Error())}
	}
	// The text of the whole error names bucket and key, which are known where the record is.
	cause := status.ErrStatus.Details.Causes[0]
	why := InvalidDocument{Reason: printable.Message(cause.Message)}
	if _, detail, ok := strings.Cut(status.ErrStatus.Message, " is invalid: "+cause.Field+": "); ok {
		why.Reason = printable.Message(detail)
	}
	if cause.Field != wholeDocument {
		why.Path = printable.Text(cause.Field)
	}
	return why
}

// wholeDocument is the field of an error that is about no part of the document in particular.
const wholeDocument = "document"
