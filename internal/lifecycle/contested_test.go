package lifecycle

import (
	"iter"
	"maps"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// kept are records, views primaries in a stream whose last message is at 7.
type (
	kept struct {
		Records
		of map[string]*entity.Record
	}
	views struct {
		Primary
		of map[string]source.View
	}
)

func (k kept) All() iter.Seq2[string, *entity.Record] { return maps.All(k.of) }

func (v views) View(key string) source.View {
	if view, ok := v.of[key]; ok {
		return view
	}
	return source.View{Presence: source.Absent}
}

func (views) Stream() source.Stream { return source.Stream{Created: "s", Highest: 7} }

// TestATermContestsWhatTheLastOneMayHaveBegunToDelete, which is all that was written for a document that is gone: also
// for one that was the last message of the stream and left no marker.
func TestATermContestsWhatTheLastOneMayHaveBegunToDelete(t *testing.T) {
	anchor := func(observed uint64) *entity.Record {
		return &entity.Record{Controller: "sites", Stream: "s", DocumentRevision: observed, ObservedRevision: observed}
	}
	at := func(p source.Presence, revision uint64) source.View {
		return source.View{Presence: p, Revision: revision}
	}
	r := &RecordedLife{
		Keys: &keytable.Table{},
		Records: kept{of: map[string]*entity.Record{
			"gone": anchor(7), "arriving": anchor(7), "changed": anchor(3), "as it was": anchor(5), "no anchor": {},
			"another's": anchor(7),
		}},
		Primary: views{of: map[string]source.View{
			"arriving": at(source.Arriving, 0), "changed": at(source.Present, 6), "as it was": at(source.Present, 5),
		}},
	}
	r.BeginTerm(func(key string) bool { return key != "another's" })
	for key, want := range map[string]uint64{
		"gone": 8, "arriving": 8, "changed": 6, "as it was": 0, "no anchor": 0, "another's": 0,
	} {
		if got := r.Keys.Of(key).ContestedFrom; got != want {
			t.Errorf("%s: what it owned is contested before revision %d, want %d", key, got, want)
		}
	}
	r.Contest("as it was")
	if got := r.Keys.Of("as it was").ContestedFrom; got != 8 {
		t.Errorf("after a delete it is contested before revision %d, want 8", got)
	}
}
