package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			"because it was larger than LastDocumentLimit (%d bytes), was never reconciled, or was replaced before it "+
			"could be read past the informer's transform (SetTransform, or Config.OnlyMetadata)", a.Kind, key, a.Limit)
	}
	return record.LastDocument, record.DocumentRevision, nil
}

// HasWhole reports whether LastDocument has more of a deleted document than the cache had, of which a transform has
// left out something. It is true also where the record cannot be read now, and LastDocument says why. Nil has nothing.
func (a *Anchors) HasWhole(ctx context.Context, key string, deleted metav1.Object) bool {
	if a == nil || !entity.IsTransformed(deleted) || a.Records.DropsSecrets() {
		return false
	}
	record, err := a.Records.Get(ctx, key)
	if _, unreadable := errors.AsType[*entity.UnreadableRecordError](err); unreadable || apierrors.IsNotFound(err) {
		return false
	}
	return err != nil || len(record.LastDocument) > 0 && a.CheckNotAhead(key, record) == nil &&
		record.DocumentRevision == uint64(deleted.GetGeneration())
}
