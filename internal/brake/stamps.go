package brake

import (
	"context"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/util/sets"
)

// stamps are those of owners that have no document, by owner: the latest that a secondary of theirs carries. It is none
// for an owner whose secondaries have lost theirs.
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
// not. A stream that was restored to an earlier state has not reached their revisions, or has given them to other
// documents. It forgets the stamps of owners that exist by now. Streams that somebody let go are no evidence.
func (s stamps) disprove(b *Brake, former []string, now Stream) string {
	var ahead, elsewhere int
	asked := map[uint64]int{} // how many owners lived at these revisions
	for key, stamp := range s {
		switch {
		case b.Primaries.Exists(key):
			delete(s, key)
		case stamp.IsNone():
		case stamp.Stream != now.Created && slices.Contains(former, stamp.Stream):
		case stamp.Stream != now.Created:
			elsewhere++
		case stamp.Revision > now.Highest:
			ahead++
		default:
			asked[stamp.Revision]++
		}
	}
	given := b.countTaken(asked)
	if ahead+given+elsewhere == 0 {
		return ""
	}
	return fmt.Sprintf("the stream of the bucket is not the one that was known: of %d missing owners, what they own "+
		"carries a revision of %d that the stream, at %d, has not reached, of %d one that is another document's now, "+
		"and of %d one of another stream", len(s), ahead, now.Highest, given, elsewhere)
}

// countTaken counts the owners at whose revisions documents stand.
func (b *Brake) countTaken(revisions map[uint64]int) (owners int) {
	if len(revisions) == 0 {
		return 0
	}
	for revision := range b.Primaries.Revisions() {
		owners += revisions[revision]
		delete(revisions, revision)
		if len(revisions) == 0 {
			break
		}
	}
	return owners
}

// disproof tells, before owners that a sweep found missing go, how their stamps show that the stream is not theirs. It
// waits until the cache has what the stamps tell of: the replica that led before may have been ahead. It takes out of
// found what exists by then. It fails only if ctx ends.
func (b *Brake) disproof(ctx context.Context, found []Orphans) (string, error) {
	if len(found) == 0 {
		return "", nil
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
		return "", context.Cause(ctx)
	}
	for key := range missing {
		if !hasOrphans(found, key) {
			delete(missing, key)
		}
	}
	if len(missing) > 0 && !now.whole() {
		return "the stream of the bucket is not the one that was known: it is being read anew", nil
	}
	reason := missing.disprove(b, former, now)
	for i := range found {
		for key, objects := range found[i].Owners {
			if b.Primaries.Exists(key) {
				found[i].Count -= objects
				delete(found[i].Owners, key)
			}
		}
	}
	if reason == "" {
		reason = b.unmarked(ctx, missing)
	}
	return reason, nil
}

// mostAsked bounds how many owners the leader is asked about in a sweep.
const mostAsked = 1000

// unmarked asks the leader for the markers that deletes leave. Without one, and without a record, nothing tells that
// there was a delete: the stream may have been restored, and written to until no sequence tells of it. A leader that
// does not answer decides nothing here: it is asked again before anything goes.
func (b *Brake) unmarked(ctx context.Context, missing stamps) string {
	asked := 0
	for key := range missing {
		marked, err := b.Marked(ctx, key)
		if asked++; err != nil || asked == mostAsked {
			return ""
		}
		if !marked {
			return fmt.Sprintf("nothing tells that somebody deleted %q, as one of %d missing owners: "+
				"it has neither a record nor a marker of a delete", key, len(missing))
		}
	}
	return ""
}
