package entity

import (
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// position is the place of a write in a bucket's stream.
type position struct {
	revision uint64
	// stream is how many streams the informer has noticed when it has noticed the stream of the write. Revisions of
	// streams with another count mean nothing here.
	stream uint64
	// doubtful says that the write may be in the stream before, because that was replaced while it was under way.
	doubtful bool
}

// doubtLasts is how long an own write is shown where its stream is not certain and the cache does not show it. It is
// more than an informer takes to notice another stream, to be told of a message, or to know that it is told of none.
const doubtLasts = 5 * time.Second

// follows reports whether p comes after before. Revisions of two streams cannot be compared; the later stream decides.
func (p position) follows(before position) bool {
	return p.stream > before.stream || p.stream == before.stream && p.revision >= before.revision
}

// reachedBy reports whether an informer has reached p, or shows a later stream.
func (p position) reachedBy(informer natsinformer.Informer) bool {
	filled := filledOf(informer.Status()) // before the cursor, which is zero by the time a change is counted
	return filled > p.stream || filled == p.stream && informer.Cursor() >= p.revision
}

// filledOf is the last stream of which the store has all that was listed. While it takes what was listed of
// StreamsShown that is the one before.
func filledOf(now natsinformer.Status) uint64 {
	if now.Relisting && now.StreamsNoticed == now.StreamsShown {
		return now.StreamsShown - 1
	}
	return now.StreamsShown
}

// isAheadOf reports whether an informer's store may still show the stream before that of p. What it has of a key then
// says nothing of what came after p.
func (p position) isAheadOf(informer natsinformer.Informer) bool {
	return p.stream > filledOf(informer.Status())
}

// moment is what an informer shows at one moment. The zero value is that of none.
type moment struct {
	informer natsinformer.Informer
	cursor   uint64
	shown    uint64 // natsinformer.Status.StreamsShown
	noticed  uint64 // and StreamsNoticed
}

func momentOf(informer natsinformer.Informer) moment {
	for {
		before := informer.Status()
		cursor := informer.Cursor()
		now := informer.Status()
		if now.StreamsShown == before.StreamsShown && now.StreamsNoticed == before.StreamsNoticed {
			return moment{informer, cursor, now.StreamsShown, now.StreamsNoticed}
		}
	}
}

// sequence is that of a write which was acknowledged.
type sequence struct {
	revision uint64
	before   moment // before it was sent
}

// positionIn returns which stream the write is in: the one that was noticed last. A stream gives each message a higher
// sequence than those before. So a sequence that the cache had reached before the write was sent is of a stream that
// the informer has not noticed yet; and a higher one may be of the stream of then.
func (s sequence) positionIn(informer natsinformer.Informer) position {
	p := position{revision: s.revision, stream: informer.Status().StreamsNoticed}
	b := &s.before
	if b.informer != informer || b.shown != b.noticed {
		return p
	}
	switch passed := s.revision <= b.cursor; {
	case b.noticed == p.stream && passed:
		p.stream++
	case b.noticed < p.stream && !passed:
		p.doubtful = true
	}
	return p
}

// moment returns what the cache of documents shows now.
func (c *Client[T]) moment() moment {
	if d := c.runningDocuments(); d != nil {
		return momentOf(d.held)
	}
	return moment{}
}

// moment returns what the cache of records shows now.
func (r *Records) moment() moment {
	if c := r.current(); c.isRunning() {
		return momentOf(c.store)
	}
	return moment{}
}

// recently returns the full records that this process has seen of the stream that was noticed last: one of another
// stream may have the revision of what is there now.
func (r *Records) recently() *recordLRU {
	if now := r.moment(); now.informer != nil {
		r.recent.follow(now)
	}
	return r.recent
}
