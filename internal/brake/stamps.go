package brake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Stamps are evidence only of owners of which something else tells that they were: a record, the marker of a delete, or
// a proof. Who may write secondaries can make up an owner and a revision of it; that is reported and holds nothing.

// stampsAtStart returns the stamps of missing owners, but for those that a release has let go.
func (b *Brake) stampsAtStart(ctx context.Context, released sets.Set[string]) (found []owner.Stamped) {
	for key, stamp := range b.Secondaries(ctx) {
		if !released.Has(key) {
			found = append(found, owner.Stamped{Key: key, Stamp: stamp})
		}
	}
	return found
}

// stampsIn returns the stamps that a sweep found, but for those of owners that a release has let go, or that exist by
// now. doubted are those of owners that, as far as anybody can tell, never were.
func (b *Brake) stampsIn(found []Orphans, released sets.Set[string]) (known, doubted []owner.Stamped) {
	for _, o := range found {
		for _, s := range o.Stamps {
			switch {
			case released.Has(s.Key), o.Unknown.Has(s.Key), b.Primaries.Exists(s.Key):
			case o.Unproved.Has(s.Key):
				doubted = append(doubted, s)
			default:
				known = append(known, s)
			}
		}
	}
	return known, doubted
}

// disprove returns how stamps show that the stream, as it is now, is not that of the owners; "" if they do not. what
// says what owners they are.
func (b *Brake) disprove(stamps []owner.Stamped, what string, former []string, now Stream) string {
	d := owner.Disprove(stamps, now.Created, now.Highest, former, b.Primaries.Revisions())
	lost := d.Owners()
	if lost.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("of %d %s, what they own carries a revision of %d that the stream, at %d, has not reached, "+
		"of %d one that is another document's now, and of %d one of another stream, as %s",
		len(d.Asked), what, len(d.Ahead), now.Highest, len(d.Taken), len(d.Elsewhere),
		printable.Quote(slices.Min(lost.UnsortedList())))
}

// otherStream is what is wrong where stamps of missing owners disprove the stream.
const otherStream = "the stream of the bucket is not the one that was known: "

// reasonOf is disprove for owners that were.
func (b *Brake) reasonOf(stamps []owner.Stamped, former []string, now Stream) string {
	if how := b.disprove(stamps, "missing owners", former, now); how != "" {
		return otherStream + how
	}
	return ""
}

// disproof tells, before owners that a sweep found missing go, how their stamps show that the stream is not theirs. It
// waits until the cache has what the stamps tell of: the replica that led before may have been ahead. It takes out of
// found what exists by then, and reports what owners tell that never were. It fails only if ctx ends.
func (b *Brake) disproof(ctx context.Context, found []Orphans) (reason string, err error) {
	b.mu.Lock()
	released, former := b.allowed.Union(b.excused), b.known.Former
	b.unlock()
	known, _ := b.stampsIn(found, released)
	now := b.Primaries.Stream()
	if stamped := owner.Latest(known, now.Created); stamped > now.Highest {
		now = b.streamNow(ctx, now, stamped)
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	for _, o := range found {
		for key := range o.Owners {
			if b.Primaries.Exists(key) {
				delete(o.Owners, key)
			}
		}
	}
	known, doubted := b.stampsIn(found, released)
	b.reportDoubted(ctx, b.disprove(doubted, "owners that, as far as anybody can tell, never were", former, now))
	if len(known) > 0 && !now.whole() {
		return otherStream + "it is being read anew", nil
	}
	return b.reasonOf(known, former, now), nil
}

// restoreOnBoard is the name on the board of a stream that may have been restored, as owners say that never were.
func (b *Brake) restoreOnBoard() string { return "restore (bucket " + b.Bucket.Name() + ")" }

// reportDoubted shows how owners that, as far as anybody can tell, never were say that the stream went back; "": none
// does.
func (b *Brake) reportDoubted(ctx context.Context, how string) {
	b.Board.Change(ctx, b.restoreOnBoard(), func() error {
		if how == "" || ctx.Err() != nil { // after the term it would never be taken off
			return nil
		}
		list, remove := "", "delete by hand what nobody needs"
		if b.Orphans.ToList != "" {
			list = ", whose keys " + b.Orphans.ToList + " lists"
			remove = "look at what " + b.Orphans.ToList + " lists, and then " + b.Orphans.ToDelete +
				" deletes what nobody needs, with list and count of that answer for LIST and COUNT"
		}
		return errors.New("the stream of the bucket may have been restored from a backup: " + how +
			". Nothing deletes what they own. Put back the documents that are younger than the backup" + list +
			"; else somebody made these revisions up: " + remove)
	})
}

// OrphanCommands are how to list and to delete what names owners that never were, as commands to copy.
type OrphanCommands struct{ ToList, ToDelete string }
