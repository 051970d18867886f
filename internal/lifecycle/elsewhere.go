package lifecycle

import (
	"context"
	"iter"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Where caches have what belongs to the keys of one replica, the one that decides for all reads from the server what it
// has to see of the rest: what names owners that are not there. Of what is well there is none.

// elsewhere is what was read of owners that are not there and are not this replica's.
type elsewhere struct {
	objects map[string][]metav1.Object // by source
	unread  map[string]error           // where that failed
}

// readElsewhere reads what names owners of this installation that exists has not.
func (t *Teardown) readElsewhere(ctx context.Context, exists iter.Seq[string]) elsewhere {
	e, ours := elsewhere{map[string][]metav1.Object{}, map[string]error{}}, t.Owner.Claim().Instance
	for _, s := range t.swept() {
		var owners map[uint64]struct{}
		var missing []string
		for a := range s.Elsewhere() {
			if owners == nil {
				owners = map[uint64]struct{}{}
				for key := range exists {
					owners[s.OwnerHash(key)] = struct{}{}
				}
			}
			if _, is := owners[a.Owner]; !is && a.Instance == ours {
				missing = append(missing, a.Key)
			}
		}
		if len(missing) == 0 {
			continue
		}
		found, err := s.Read(ctx, missing)
		if err != nil {
			klog.FromContext(ctx).Info("Objects of owners that are gone could not be read, and are left alone for now",
				"source", s.String(), "objects", len(missing), "err", err)
			e.unread[s.String()] = err
		}
		e.objects[s.String()] = found
	}
	return e
}

// all are the objects in the cache of a source, and those that were read.
func (e elsewhere) all(s source.Owned) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for obj := range s.All() {
			if !yield(obj) {
				return
			}
		}
		for _, obj := range e.objects[s.String()] {
			if !yield(obj) {
				return
			}
		}
	}
}

// documents are the primaries that have a document, as far as the cache knows.
func (t *Teardown) documents(yield func(key string) bool) {
	for _, key := range t.Primaries.Keys() {
		if !yield(key) {
			return
		}
	}
}

// owners are the primaries that have a document, or an anchor.
func (t *Teardown) owners(yield func(key string) bool) {
	for key := range t.documents {
		if !yield(key) {
			return
		}
	}
	for key, held := range t.Records.All() {
		if record.IsAnchor(held) && !yield(key) {
			return
		}
	}
}

// count counts what is in no cache of this replica: what this installation has, by the hash of the owner, and in all,
// without what was read; and what other installations have.
func (e elsewhere) count(s source.Owned, claim owner.Claim) (ours map[uint64]int, all, foreign int) {
	ours = map[uint64]int{}
	for a := range s.Elsewhere() {
		if a.Instance != claim.Instance {
			foreign++
			continue
		}
		ours[a.Owner]++
		all++
	}
	return ours, max(0, all-len(e.objects[s.String()])), foreign
}
