package controllerruntime

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
)

// documentsPatience is how long a new leader waits until its cache of documents has what the records tell of. Longer, and
// the stream is taken for one that was restored to an earlier state.
const documentsPatience = 3 * time.Second

// knownStream is the stream that was kept. The first one is kept at once, lest a crash forget what was known.
func (b *brake) knownStream(ctx context.Context) (streamIdentity, error) {
	known, found, err := b.streamKey.Load(ctx)
	if errors.Is(err, record.ErrUnreadable) {
		return streamIdentity{Created: "unreadable"}, nil // which stream it was cannot be told: so not this one
	}
	if err != nil || found {
		return known, err
	}
	now := b.engine.stream()
	if now.Created == "" {
		return now, nil
	}
	return now, b.streamKey.Store(ctx, now)
}

// whole tells whether all of it is known: while the cache passes from one stream to another it is at no sequence.
func (s streamIdentity) whole() bool { return s.Created != "" && s.Highest > 0 }

// streamNow is the stream that the cache reflects, when the cache has caught up with what is known of it: the replica that
// led before may have been ahead of ours.
func (b *brake) streamNow(ctx context.Context, known streamIdentity) streamIdentity {
	now := b.engine.stream()
	if now.Created != known.Created || now.Highest >= known.Highest {
		return now
	}
	patience, cancel := context.WithTimeout(ctx, documentsPatience)
	defer cancel()
	_ = b.engine.primary.Await(patience, known.Highest) // what it says is looked at
	return b.engine.stream()
}

// writtenOver tells whether a document stands at a sequence at which the records know one that is gone. No stream has two
// messages at one sequence: it was restored to an earlier state, and written to again past where it was. Where what was
// written there has been replaced too, nothing is left that could tell, and only the number of what is missing counts.
func (b *brake) writtenOver(records map[string]*entity.Record) bool {
	primary := b.engine.primary
	stream, gone := primary.StreamID(), map[uint64]struct{}{}
	for key, record := range records {
		if record.Stream == stream && record.DocumentRevision > 0 && !primary.Exists(key) {
			gone[record.DocumentRevision] = struct{}{}
		}
	}
	if len(gone) == 0 {
		return false
	}
	for _, key := range primary.Keys() {
		if _, taken := gone[primary.View(key).Revision]; taken {
			return true
		}
	}
	return false
}

// sameStream is the stream that was known, marked as another one where the stream of now is not it.
func sameStream(known, now streamIdentity, writtenOver bool) streamIdentity {
	if known.Created == "" {
		return now // never seen before
	}
	known.Changes = now.Changes
	if known.Created != now.Created || now.Highest < known.Highest || writtenOver {
		known.Changes-- // never equal to what the informer counts from now on
	}
	return known
}

func (b *brake) streamChangedLocked() bool { return b.known.changedTo(b.engine.stream()) }

func (b *brake) streamChanged() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.streamChangedLocked()
}

func (s streamIdentity) changedTo(now streamIdentity) bool {
	return now.Changes != s.Changes || now.Created != s.Created
}

// keepStream keeps the identity and the highest sequence of the stream, once in each streamCheckpoint. Another stream is
// taken for ours only when nothing that the anchors know is missing in it, and that for two checkpoints: the change is
// known before what it deletes has reached the cache.
func (b *brake) keepStream(ctx context.Context) {
	now := b.engine.stream()
	b.mu.Lock()
	kept := b.known
	calm := len(b.suspects)+len(b.held)+len(b.swept)+len(b.allowed) == 0 && !b.state.Engaged
	b.mu.Unlock()
	if !kept.changedTo(now) {
		b.calmIn = nil
		b.keepHighest(ctx, kept, now)
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
	b.keepAsKnown(ctx, now)
}

// keepStreamAtEnd does it once more when the work ends, if the server answers soon. It is no time to adopt a stream.
func (b *brake) keepStreamAtEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	now := b.engine.stream()
	b.mu.Lock()
	kept := b.known
	b.mu.Unlock()
	b.keepHighest(ctx, kept, now)
}

// keepHighest keeps how far the known stream has come.
func (b *brake) keepHighest(ctx context.Context, kept, now streamIdentity) {
	if now.whole() && !kept.changedTo(now) && now.Highest > kept.Highest {
		b.keepAsKnown(ctx, now)
	}
}

func (b *brake) keepAsKnown(ctx context.Context, now streamIdentity) {
	if err := b.streamKey.Store(ctx, now); err != nil {
		return // logged by nobody on purpose: the next checkpoint, or the records, tell the same
	}
	b.mu.Lock()
	b.known = now
	b.mu.Unlock()
}

func (b *brake) anythingMissing() bool {
	for key := range b.engine.anchoredRecords() {
		if !b.engine.primary.Exists(key) {
			return true
		}
	}
	return false
}

// streamIdentity tells one stream from another under the same name. Created survives a restore from a backup, so the
// highest sequence seen counts too.
type streamIdentity struct {
	Created string `json:"created"`
	Highest uint64 `json:"highestSequence"`
	Changes uint64 `json:"-"` // how often the informer noticed another stream since it started
}

// highestKnown also counts what the records tell: they are written more often than the reserved key.
func highestKnown(known streamIdentity, records map[string]*entity.Record) streamIdentity {
	for _, record := range records {
		if record.Stream == known.Created {
			known.Highest = max(known.Highest, record.ObservedRevision, record.DocumentRevision)
		}
	}
	return known
}
