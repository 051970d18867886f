package owner

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Stamped is the stamp of a secondary of the owner with this key.
type Stamped struct {
	Key   string
	Stamp Stamp
}

// Latest is the latest revision of a stream among stamps.
func Latest(stamps []Stamped, stream string) (revision uint64) {
	for _, s := range stamps {
		if s.Stamp.Stream == stream {
			revision = max(revision, s.Stamp.Revision)
		}
	}
	return revision
}

// Disproof is how stamps of owners that have no document show that a stream, as it is now, is not that of the owners:
// it was restored to an earlier state, or is another one. The sets are keys of owners.
type Disproof struct {
	Asked     sets.Set[string] // all owners
	Ahead     sets.Set[string] // the stream has not reached a revision of theirs
	Taken     sets.Set[string] // it has given a revision of theirs to another document
	Elsewhere sets.Set[string] // a revision of theirs is of another stream
}

// Owners are those whose stamps are evidence.
func (d Disproof) Owners() sets.Set[string] { return d.Ahead.Union(d.Taken).Union(d.Elsewhere) }

// Disprove compares stamps with the stream that has come to a revision, and in which the documents have these
// revisions. Stamps of former streams are no evidence: a release of the brake let those go.
func Disprove(
	stamps []Stamped, stream string, highest uint64, former []string, documents iter.Seq[uint64],
) Disproof {
	d := Disproof{sets.New[string](), sets.New[string](), sets.New[string](), sets.New[string]()}
	reached := map[uint64][]string{} // the owners that lived at these revisions
	for _, s := range stamps {
		d.Asked.Insert(s.Key)
		switch {
		case s.Stamp.Stream != stream && slices.Contains(former, s.Stamp.Stream):
		case s.Stamp.Stream != stream:
			d.Elsewhere.Insert(s.Key)
		case s.Stamp.Revision > highest:
			d.Ahead.Insert(s.Key)
		default:
			reached[s.Stamp.Revision] = append(reached[s.Stamp.Revision], s.Key)
		}
	}
	if len(reached) == 0 {
		return d
	}
	for revision := range documents {
		d.Taken.Insert(reached[revision]...)
	}
	return d
}
