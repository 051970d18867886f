package brake

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/util/sets"
)

// stamps are those of owners that have no document, by owner: the latest that a secondary of theirs carries.
type stamps map[string]owner.Stamp

// stampsOfMissing returns the stamps of missing owners, but for those that were released.
func (b *Brake) stampsOfMissing(released sets.Set[string]) stamps {
	found := stamps{}
	for key, stamp := range b.Secondaries {
		if !stamp.IsNone() && stamp.Revision > found[key].Revision && !released.Has(key) && !b.Primaries.Exists(key) {
			found[key] = stamp
		}
	}
	return found
}

// highest is the latest revision of a stream.
func (s stamps) highest(stream string) (revision uint64) {
	for _, stamp := range s {
		if stamp.Stream == stream {
			revision = max(revision, stamp.Revision)
		}
	}
	return revision
}

// disprove returns how the stamps show that the stream, as it is now, is not that of the missing owners; "" if they do
// not. A stream that was restored to an earlier state has not reached their revisions, or has given them to other
// documents.
func (s stamps) disprove(b *Brake, now Stream) string {
	if len(s) == 0 || !now.whole() {
		return ""
	}
	taken := sets.New[uint64]()
	for revision := range b.Primaries.Revisions() {
		taken.Insert(revision)
	}
	var ahead, given, elsewhere int
	for _, stamp := range s {
		switch {
		case stamp.Stream != now.Created:
			elsewhere++
		case stamp.Revision > now.Highest:
			ahead++
		case taken.Has(stamp.Revision):
			given++
		}
	}
	if ahead+given+elsewhere == 0 {
		return ""
	}
	return fmt.Sprintf("the stream of the bucket is not the one that was known: of %d missing owners, what they own "+
		"carries a revision of %d that the stream, at %d, has not reached, of %d one that is another document's now, "+
		"and of %d one of another stream", len(s), ahead, now.Highest, given, elsewhere)
}

// disproof tells, before owners that a sweep found missing go, how their stamps show that the stream is not theirs. It
// waits until the cache has what the stamps tell of: the replica that led before may have been ahead. It takes out of
// found what exists by then.
func (b *Brake) disproof(ctx context.Context, found []Orphans) string {
	if len(found) == 0 {
		return ""
	}
	b.mu.Lock()
	released := b.allowed.Clone()
	b.unlock()
	missing := b.stampsOfMissing(released)
	now := b.Primaries.Stream()
	if stamped := missing.highest(now.Created); stamped > now.Highest {
		now = b.streamNow(ctx, now, stamped)
	}
	for key := range missing {
		if b.Primaries.Exists(key) || !hasOrphans(found, key) {
			delete(missing, key)
		}
	}
	for i := range found {
		for key, objects := range found[i].Owners {
			if b.Primaries.Exists(key) {
				found[i].Count -= objects
				delete(found[i].Owners, key)
			}
		}
	}
	return missing.disprove(b, now)
}
