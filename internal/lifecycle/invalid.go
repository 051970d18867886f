package lifecycle

import (
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// invalidDocument is what the record says of a document that does not decode, or else of one that no record can hold.
func invalidDocument(v source.View, unrecordable string) *entity.InvalidDocument {
	why := entity.WhyInvalid(v.Why)
	why.Revision = v.Refused
	if v.Refused == 0 {
		why = entity.InvalidDocument{Revision: v.Revision, Reason: printable.Message(unrecordable)}
	}
	return &why
}

// NotDecodable says in words, for a condition and an event, which revision of which stream does not decode, and why.
func NotDecodable(v source.View, stream string) string {
	why := entity.WhyInvalid(v.Why)
	if why.Path != "" {
		why.Reason = why.Path + ": " + why.Reason
	}
	return fmt.Sprintf("revision %d (of the stream made %s) does not decode: %s; it is reconciled once it does",
		v.Refused, stream, why.Reason)
}
