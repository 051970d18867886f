package lifecycle

import (
	"context"
	"errors"
	"iter"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/util/sets"
)

// StampsOfMissing returns the owner and the stamp of each secondary of this installation whose owner has no document,
// but for those that were left on purpose or are on their way out. What has no stamp is not among them: resources
// behind APIs, what an older version wrote, and what lost its annotations. Nor is what has to be proven and is not, nor
// what is not proven and names an owner without a record: a made-up stamp is no evidence. The sweep asks
// the leader, and finds the stamps of owners that have a marker.
func (t *Teardown) StampsOfMissing(ctx context.Context) iter.Seq2[string, owner.Stamp] {
	return func(yield func(string, owner.Stamp) bool) {
		left, others := t.leftOwners(), t.readElsewhere(ctx, t.documents)
		for _, s := range t.swept() {
			claim := t.Owner.Claim().In(s)
			for obj := range others.all(s) {
				named, ok := claim.OwnerOf(obj)
				key, _ := named.Key()
				stamp := owner.StampOf(obj)
				if !ok || stamp.IsNone() || key == "" || t.Primaries.Exists(key) || !claim.Owns(obj, key) ||
					obj.GetDeletionTimestamp() != nil || left.has(ctx, key) {
					continue
				}
				if !record.IsAnchor(t.Anchors.Cached(key)) && !claim.IsProven(obj) {
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
	found, err := t.Guard.Gone(ctx, key)
	if errors.Is(err, deletes.ErrDocumentReturned) {
		return true, nil
	}
	return found.Revision > 0, err
}

// CountOwnedBy counts what would be deleted with primaries, by primary, from the caches.
func (t *Teardown) CountOwnedBy(primaries sets.Set[string]) map[string]int {
	counts := map[string]int{}
	for _, s := range t.swept() {
		claim := t.Owner.Claim().In(s)
		others, _, _ := elsewhere{}.count(s, claim)
		for key := range primaries {
			if n := others[s.OwnerHash(key)]; n > 0 {
				counts[key] += n
				continue
			}
			objects, err := s.OwnedBy(key)
			if err != nil {
				continue // nothing of it can be deleted either
			}
			for _, obj := range objects {
				if claim.Owns(obj, key) && obj.GetDeletionTimestamp() == nil {
					counts[key]++
				}
			}
		}
	}
	return counts
}

// CountOwned counts all that primaries own in the caches, and that the runtime may delete.
func (t *Teardown) CountOwned() (count int) {
	for _, s := range t.swept() {
		claim := t.Owner.Claim().In(s)
		_, all, _ := elsewhere{}.count(s, claim)
		count += all
		for obj := range s.All() {
			if claim.IsOwned(obj) && obj.GetDeletionTimestamp() == nil {
				count++
			}
		}
	}
	return count
}
