package brake

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Stream tells one stream from another of the same name. Created survives a restore from a backup, so the highest
// sequence that was seen counts too.
type Stream struct {
	Created string `json:"created"`         // its identity, as records keep it
	Highest uint64 `json:"highestSequence"` // the cache is complete up to here; 0 on the way to another stream
	Changes uint64 `json:"-"`               // how often this process noticed another stream
}

// keptStream is what the status bucket has of a stream.
type keptStream struct {
	Stream
	// Former are the identities of streams that this one took the place of, with a person's consent or with nothing
	// missing. What carries one was not written since, and no more.
	Former []string `json:"former,omitempty"`
}

// mostFormer bounds the former identities that are remembered.
const mostFormer = 20

// succeededBy returns now, with the former identities.
func (k keptStream) succeededBy(now Stream) keptStream {
	next := keptStream{now, k.Former}
	if k.Created != now.Created && k.Created != "" && !slices.Contains(k.Former, k.Created) {
		next.Former = append(slices.Clone(k.Former), k.Created)
		next.Former = next.Former[max(0, len(next.Former)-mostFormer):]
	}
	return next
}

// whole reports whether all of it is known.
func (s Stream) whole() bool { return s.Created != "" && s.Highest > 0 }

// changedTo reports whether now is another stream.
func (s Stream) changedTo(now Stream) bool {
	return now.Changes != s.Changes || now.Created != s.Created
}

// knownStream is the stream that the anchors belong to.
type knownStream struct {
	keptStream
	lost bool // the cache shows another stream, even if it looks the same
}

func (k knownStream) changedTo(now Stream) bool { return k.lost || k.Stream.changedTo(now) }

// compareAll returns the known stream, at the start of a term. Anchors and the stamps of missing owners are written
// more often than the stream is kept.
func (b *Brake) compareAll(ctx context.Context, known keptStream, missing []owner.Stamped) knownStream {
	if known.Created == "" {
		known.Stream = b.Primaries.Stream() // never seen before
		return knownStream{keptStream: known, lost: b.reasonOf(missing, nil, known.Stream) != ""}
	}
	known.Stream = b.withAnchors(known.Stream)
	now := b.streamNow(ctx, known.Stream, owner.Latest(missing, known.Created))
	lost := known.Created != now.Created || now.Highest < known.Highest || b.writtenOver() ||
		b.reasonOf(b.stillMissing(missing), known.Former, now) != ""
	known.Changes = now.Changes
	return knownStream{keptStream: known, lost: lost}
}

// stillMissing are the stamps of those that do not exist by now.
func (b *Brake) stillMissing(stamps []owner.Stamped) []owner.Stamped {
	return slices.DeleteFunc(stamps, func(s owner.Stamped) bool { return b.Primaries.Exists(s.Key) })
}

// StreamChanged reports whether the bucket's stream is not the one that the anchors belong to.
func (b *Brake) StreamChanged() bool {
	b.mu.Lock()
	defer b.unlock()
	return b.streamChanged()
}

// Overrules reports whether a key may go although its anchor tells of a revision that the stream does not have: the
// stream went back, or what was held was released.
func (b *Brake) Overrules(key string) bool {
	b.mu.Lock()
	defer b.unlock()
	return b.streamChanged() || b.state.Released && b.allowed.Has(key)
}

func (b *Brake) streamChanged() bool {
	if b.Shared && !b.running {
		return b.follow.told.StreamChanged
	}
	return b.known.changedTo(b.Primaries.Stream())
}

// unreadable is the identity of a stream that cannot be told apart. No stream has it.
const unreadable = "unreadable"

// loadStream returns the stream that was kept. The first one is kept at once, lest a crash forget what was known.
func (b *Brake) loadStream(ctx context.Context) (keptStream, error) {
	known, found, err := b.streamCell.Load(ctx)
	if errors.Is(err, record.ErrUnreadable) {
		return keptStream{Stream: Stream{Created: unreadable}}, nil
	}
	if err != nil || found {
		return known, err
	}
	now := keptStream{Stream: b.Primaries.Stream()}
	if now.Created == "" {
		return now, nil
	}
	return now, b.streamCell.Store(ctx, now)
}

// withAnchors adds what the anchors tell of the known stream. They are written more often than the stream is kept.
func (b *Brake) withAnchors(known Stream) Stream {
	for _, anchor := range b.Anchors.All() {
		if anchor.Stream == known.Created {
			known.Highest = max(known.Highest, anchor.Observed, anchor.Document)
		}
	}
	return known
}

// documentsPatience is how long a new leader waits until its cache has what the anchors tell of. After that the stream
// counts as one that was restored to an earlier state.
const documentsPatience = 3 * time.Second

// streamNow is the stream that the cache reflects, once the cache has caught up with what is known of it: the replica
// that led before may have been ahead of this one.
func (b *Brake) streamNow(ctx context.Context, known Stream, stamped uint64) Stream {
	now, highest := b.Primaries.Stream(), max(known.Highest, stamped)
	if now.Created != known.Created || now.Highest >= highest {
		return now
	}
	bounded, cancel := context.WithTimeout(ctx, documentsPatience)
	defer cancel()
	_ = b.Primaries.Await(bounded, highest) // the stream itself tells whether it did
	return b.Primaries.Stream()
}

// writtenOver reports whether a document stands at a sequence at which an anchor knows one that is gone. No stream has
// two messages at one sequence: it was restored to an earlier state, and written to past where it was. Where that has
// been replaced too, nothing can tell, and only the number of the missing counts.
func (b *Brake) writtenOver() bool {
	stream, gone := b.Primaries.Stream().Created, sets.New[uint64]()
	for key, anchor := range b.Anchors.All() {
		if anchor.Stream == stream && anchor.Document > 0 && !b.Primaries.Exists(key) {
			gone.Insert(anchor.Document)
		}
	}
	if len(gone) == 0 {
		return false
	}
	for revision := range b.Primaries.Revisions() {
		if gone.Has(revision) {
			return true
		}
	}
	return false
}

// keepStream keeps how far the known stream has come. Another stream is adopted only when nothing that is anchored is
// missing in it, at two checkpoints in a row: the change is known before what it deletes has reached the cache.
func (b *Brake) keepStream(ctx context.Context) {
	now, known, calm := b.look()
	if !known.changedTo(now) {
		b.calmIn = nil
		b.keepHighest(ctx, known, now)
		return
	}
	if !calm || !now.whole() || b.anythingMissing() {
		b.calmIn = nil
		return
	}
	if b.calmIn == nil || b.calmIn.changedTo(now) {
		b.calmIn = &now
		return
	}
	b.calmIn = nil
	b.adopt(ctx, now)
}

// KeepProgress keeps how far the known stream has come, at the end of a term, if the server answers soon. It is no time
// to adopt a stream.
func (b *Brake) KeepProgress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	now, known, _ := b.look()
	b.keepHighest(ctx, known, now)
}

// look returns the stream as it is, as it is known, and whether the brake has nothing to do.
func (b *Brake) look() (now Stream, known knownStream, calm bool) {
	now = b.Primaries.Stream()
	b.mu.Lock()
	defer b.unlock()
	return now, b.known, len(b.suspects)+len(b.held)+len(b.heldOwners)+len(b.allowed) == 0 && !b.state.Engaged
}

func (b *Brake) keepHighest(ctx context.Context, known knownStream, now Stream) {
	if now.whole() && !known.changedTo(now) && now.Highest > known.Highest {
		b.adopt(ctx, now)
	}
}

// adopt takes now for the known stream once that is kept. Where it cannot be, the next checkpoint tries again.
func (b *Brake) adopt(ctx context.Context, now Stream) {
	b.mu.Lock()
	next := b.known.succeededBy(now)
	b.unlock()
	if err := b.streamCell.Store(ctx, next); err != nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	b.known = knownStream{keptStream: next}
}

func (b *Brake) anythingMissing() bool {
	for key := range b.Anchors.All() {
		if !b.Primaries.Exists(key) {
			return true
		}
	}
	return false
}
