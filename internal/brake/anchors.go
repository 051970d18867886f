package brake

import (
	"iter"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
)

// RecordAnchors are the anchors among the records of a status bucket.
type RecordAnchors struct{ Records Records }

// Records are those in the cache of a status bucket.
type Records interface {
	All() iter.Seq2[string, *entity.Record]
	Cached(key string) (*entity.Record, bool)
}

var _ Anchors = RecordAnchors{}

// All implements Anchors.
func (a RecordAnchors) All() iter.Seq2[string, Anchor] {
	return func(yield func(string, Anchor) bool) {
		for key, held := range a.Records.All() {
			if !record.IsAnchor(held) {
				continue
			}
			anchor := Anchor{Stream: held.Stream, Document: held.DocumentRevision, Observed: held.ObservedRevision}
			if !yield(key, anchor) {
				return
			}
		}
	}
}

// Has implements Anchors.
func (a RecordAnchors) Has(key string) bool {
	held, _ := a.Records.Cached(key)
	return record.IsAnchor(held)
}
