package teardown

import (
	"context"
	"errors"
	"iter"

	"github.com/nagi-runtime/nagi/internal/owner"
)

// StampsOfMissing returns the owner and the stamp of each secondary of this installation whose owner has no document,
// but for those that were left on purpose or are on their way out. What has no stamp is not among them: resources
// behind APIs, what an older version wrote, and what lost its annotations.
func (t *Teardown) StampsOfMissing(ctx context.Context) iter.Seq2[string, owner.Stamp] {
	return func(yield func(string, owner.Stamp) bool) {
		left := t.leftOwners()
		for _, s := range t.swept() {
			claim := t.Owner.Claim().In(s)
			for _, obj := range s.All() {
				named, ok := claim.OwnerOf(obj)
				key, _ := named.Key()
				stamp := owner.StampOf(obj)
				if !ok || stamp.IsNone() || key == "" || t.Primaries.Exists(key) || !claim.Owns(obj, key) ||
					obj.GetDeletionTimestamp() != nil || left.has(ctx, key) {
					continue
				}
				if !yield(key, stamp) {
					return
				}
			}
		}
	}
}

// Marked asks the leader whether a key has the marker of a delete. A document that exists counts as one: it is not
// missing.
func (t *Teardown) Marked(ctx context.Context, key string) (bool, error) {
	found, err := t.Marker(ctx, key)
	if errors.Is(err, ErrDocumentReturned) {
		return true, nil
	}
	return found.Revision > 0, err
}
