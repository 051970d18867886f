package brake

import (
	"context"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/util/sets"
)

// stamps are those of owners that have no document, by owner: the latest that a secondary of theirs carries.
type stamps map[string]owner.Stamp

// stampsOfMissing returns the stamps of missing owners, but for those that a release has let go.
func (b *Brake) stampsOfMissing(ctx context.Context, released sets.Set[string]) stamps {
	found := stamps{}
	for key, stamp := range b.Secondaries(ctx) {
		if held, seen := found[key]; (!seen || stamp.Revision > held.Revision) && !released.Has(key) {
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
// not. lost are the owners whose stamps show it. A stream that was restored to an earlier state has not reached their
// revisions, or has given them to other documents. It forgets the stamps of owners that exist by now. Streams that
// somebody let go are no evidence.
func (s stamps) disprove(b *Brake, former []string, now Stream) (reason string, lost sets.Set[string]) {
	var ahead, elsewhere int
	lost = sets.New[string]()
	asked := map[uint64][]string{} // the owners that lived at these revisions
	for key, stamp := range s {
		switch {
		case b.Primaries.Exists(key):
			delete(s, key)
		case stamp.Stream != now.Created && slices.Contains(former, stamp.Stream):
		case stamp.Stream != now.Created:
			elsewhere++
			lost.Insert(key)
		case stamp.Revision > now.Highest:
			ahead++
			lost.Insert(key)
		default:
			asked[stamp.Revision] = append(asked[stamp.Revision], key)
		}
	}
	given := b.taken(asked)
	if lost.Insert(given...); lost.Len() == 0 {
		return "", nil
	}
	return fmt.Sprintf("the stream of the bucket is not the one that was known: of %d missing owners, what they own "+
		"carries a revision of %d that the stream, at %d, has not reached, of %d one that is another document's now, "+
		"and of %d one of another stream, as %s",
		len(s), ahead, now.Highest, len(given), elsewhere, foreign.Quote(slices.Min(lost.UnsortedList()))), lost
}

// taken are the owners at whose revisions other documents stand.
func (b *Brake) taken(revisions map[uint64][]string) (owners []string) {
	if len(revisions) == 0 {
		return nil
	}
	for revision := range b.Primaries.Revisions() {
		owners = append(owners, revisions[revision]...)
		delete(revisions, revision)
		if len(revisions) == 0 {
			break
		}
	}
	return owners
}

// disproof tells, before owners that a sweep found missing go, how their stamps show that the stream is not theirs, and
// whose stamps do. It waits until the cache has what the stamps tell of: the replica that led before may have been
// ahead. It takes out of found what exists by then. It fails only if ctx ends.
func (b *Brake) disproof(ctx context.Context, found []Orphans) (reason string, lost sets.Set[string], err error) {
	if len(found) == 0 {
		return "", nil, nil
	}
	b.mu.Lock()
	released, former := b.allowed.Union(b.excused), b.known.Former
	b.unlock()
	missing := b.stampsOfMissing(ctx, released)
	now := b.Primaries.Stream()
	if stamped := missing.highest(now.Created); stamped > now.Highest {
		now = b.streamNow(ctx, now, stamped)
	}
	if err := ctx.Err(); err != nil {
		return "", nil, context.Cause(ctx)
	}
	for key := range missing {
		if !hasOrphans(found, key) {
			delete(missing, key)
		}
	}
	if len(missing) > 0 && !now.whole() {
		return "the stream of the bucket is not the one that was known: it is being read anew",
			sets.KeySet(missing), nil
	}
	reason, lost = missing.disprove(b, former, now)
	for _, o := range found {
		for key := range o.Owners {
			if b.Primaries.Exists(key) {
				delete(o.Owners, key)
			}
		}
	}
	return reason, lost, nil
}
