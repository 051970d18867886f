package entity

import "github.com/nagi-runtime/nagi/natsinformer"

// position is the place of a write in a bucket's stream.
type position struct {
	revision uint64
	// stream is how many streams the informer has noticed when it has noticed the stream of the write. Revisions of
	// streams with another count mean nothing here.
	stream uint64
}

// follows reports whether p comes after before. Revisions of two streams cannot be compared; the later stream decides.
func (p position) follows(before position) bool {
	return p.stream > before.stream || p.stream == before.stream && p.revision >= before.revision
}

// reachedBy reports whether an informer has reached p, or shows a later stream.
func (p position) reachedBy(informer natsinformer.Informer) bool {
	shown := informer.Status().StreamsShown // before the cursor, which is zero by the time a change is counted
	return shown > p.stream || shown == p.stream && informer.Cursor() >= p.revision
}

// isAheadOf reports whether an informer's store may still show the stream before that of p. What it has of a key then
// says nothing of what came after p.
func (p position) isAheadOf(informer natsinformer.Informer) bool {
	now := informer.Status()
	return p.stream > now.StreamsShown ||
		p.stream == now.StreamsShown && now.Relisting && now.StreamsNoticed == now.StreamsShown
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
// the informer has not noticed yet.
func (s sequence) positionIn(informer natsinformer.Informer) position {
	stream := informer.Status().StreamsNoticed
	b := &s.before
	if b.informer == informer && b.noticed == stream && b.shown == b.noticed && s.revision <= b.cursor {
		stream++
	}
	return position{s.revision, stream}
}

// moment returns what the cache of documents shows now.
func (c *Client[T]) moment() moment {
	if d := c.runningDocuments(); d != nil {
		return momentOf(d.informer)
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
