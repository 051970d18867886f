package lifecycle

import (
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Primary is the source of the primaries, as the lifecycle asks it.
type Primary interface {
	View(key string) source.View
	StreamID() string      // of the stream that the cache reflects
	Stream() source.Stream // as far as the cache has come
}

// A delete may be under way that asks for what was seen, and arrives late: of a teardown or a sweep that began here, or
// in the term of another leader. If its primary is back by then, what it owns has to be written, or it is deleted.

// BeginTerm notes the primaries of a term that were gone, or have changed, since they were last reconciled: maybe
// another leader tore them down. What was reconciled as it is now was written then, if it had to be.
func (r *RecordedLife) BeginTerm(has func(key string) bool) {
	next := r.Primary.Stream().Highest + 1
	for key, held := range r.Records.All() {
		if !record.IsAnchor(held) || !has(key) {
			continue
		}
		switch v := r.Primary.View(key); {
		case v.Presence == source.Absent || v.Presence == source.Arriving:
			r.contest(key, next)
		case v.Revision != held.ObservedRevision:
			r.contest(key, v.Revision)
		}
	}
}

// contest notes that what a primary owned before a revision may be about to be deleted.
func (r *RecordedLife) contest(key string, from uint64) {
	r.Keys.Change(key, func(s *keytable.State) { s.ContestedFrom = from })
}

// Contest implements Lifecycle.
func (r *RecordedLife) Contest(key string) { r.contest(key, r.Primary.Stream().Highest+1) }

// ContestedFrom implements Lifecycle. A primary that was never reconciled may have been an owner that did not exist,
// whose objects are swept.
func (r *RecordedLife) ContestedFrom(key string, revision uint64) uint64 {
	if from := r.Keys.Of(key).ContestedFrom; from > 0 {
		return from
	}
	if held := r.Anchors.Cached(key); held == nil || held.ObservedRevision == 0 {
		return revision
	}
	return 0
}

// BeginTerm implements Lifecycle.
func (u Unrecorded) BeginTerm(func(string) bool) {}

// Contest implements Lifecycle.
func (u Unrecorded) Contest(string) {}

// ContestedFrom implements Lifecycle.
func (u Unrecorded) ContestedFrom(string, uint64) uint64 { return 0 }
