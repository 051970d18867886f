package record

import (
	"context"
	"fmt"
)

// LastDocument returns the document that a key's record has, and its revision. IsNotFound if there is no record.
func (a *Anchors) LastDocument(ctx context.Context, key string) (document []byte, revision uint64, err error) {
	record, err := a.Records.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	if err := a.CheckNotAhead(key, record); err != nil {
		return nil, 0, err
	}
	if len(record.LastDocument) == 0 {
		return nil, 0, fmt.Errorf("last document of %s %q: it was not kept, "+
			"because it was larger than LastDocumentLimit (%d bytes), or was never reconciled", a.Kind, key, a.Limit)
	}
	return record.LastDocument, record.DocumentRevision, nil
}
