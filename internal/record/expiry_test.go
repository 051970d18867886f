package record_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// TestARecordHasTheTTLOfItsDocument: it is of one revision in one stream. What the client does not know any more of
// that revision the record has.
func TestARecordHasTheTTLOfItsDocument(t *testing.T) {
	const soon, later = "2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"
	anchors := &record.Anchors{Controller: "c", Kind: "Site", Limit: 1 << 10, Primary: primary{}}
	obj := &entity.Object[struct{}, struct{}]{}
	for name, test := range map[string]struct {
		record, view string
		revision     uint64
		stream       string
		covered      bool
		want         string
	}{
		"none":                        {"", "", 3, "s", true, ""},
		"the same":                    {soon, soon, 3, "s", true, soon},
		"the client has forgotten it": {soon, "", 3, "s", true, soon},
		"an older version wrote it":   {"", soon, 3, "s", false, soon},
		"restored, a bit later":       {soon, later, 3, "s", false, later},
		"the next revision":           {soon, later, 4, "s", false, later},
		"the next one without":        {soon, "", 4, "s", false, ""},
		"another stream":              {soon, "", 3, "t", false, ""},
	} {
		for _, document := range []string{"", "{}"} {
			before := &entity.Record{Controller: "c", Stream: "s", DocumentRevision: 3, DocumentExpires: test.record,
				LastDocument: []byte(document)}
			v := source.View{Object: obj, Revision: test.revision, Expires: test.view}
			if covered := anchors.Covers(before, v, test.stream); covered != test.covered {
				t.Errorf("%s: covered %v, want %v", name, covered, test.covered)
			}
			after, err := anchors.For(t.Context(), before, v, test.stream)
			if err != nil {
				t.Fatal(err)
			}
			if after.DocumentExpires != test.want || after.DocumentRevision != test.revision {
				t.Errorf("%s, last document %q: %q of %d, want %q",
					name, document, after.DocumentExpires, after.DocumentRevision, test.want)
			}
		}
	}
}
