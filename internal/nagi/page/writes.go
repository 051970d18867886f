package page

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// writes are those of a document that its bucket still has, the latest first.
type writes struct {
	Err   string
	Keeps int // how many the bucket keeps of each key; less than 1: all
	All   []write

	revision uint64 // of the document when they were read
	read     time.Time
}

type write struct {
	Revision uint64
	At       time.Time
	Gone     bool
	Changed  string // the members that are not as they were before, by their names alone
}

// writesOf are the writes of a document. They are read again when it has another revision.
func (p *Page) writesOf(ctx context.Context, kind *kinds.Kind, key string, revision uint64) writes {
	at := kind.Bucket + " " + key
	p.mu.Lock()
	known, ok := p.writes[at]
	p.mu.Unlock()
	if ok && (revision != 0 && known.revision == revision || time.Since(known.read) < eventsKept) {
		return known
	}
	made := writes{revision: revision, read: time.Now()}
	all, keeps, err := p.reader(kind).Writes(ctx, key)
	if made.Keeps = keeps; err != nil {
		made.Err, made.revision = printable.Message(err.Error()), 0
	}
	for i, w := range all {
		one := write{Revision: w.Revision, At: w.At, Gone: w.Gone}
		if i > 0 && !w.Gone {
			one.Changed = changes(&all[i-1], &all[i])
		}
		made.All = append(made.All, one)
	}
	slices.Reverse(made.All)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writes == nil || len(p.writes) > mostViewers {
		p.writes = map[string]writes{}
	}
	p.writes[at] = made
	return made
}

// mostChanges is how many members are named.
const mostChanges = 8

// changes names what a write changed. No value is among it, for it may be secret.
func changes(before, after *documents.Write) string {
	if before.Gone {
		return "it was made anew"
	}
	was, wasOK := decoded(before.Value)
	is, isOK := decoded(after.Value)
	if !wasOK || !isOK {
		return "one of the two is no JSON object"
	}
	names := changed(nil, "", was, is)
	switch {
	case len(names) == 0:
		return "nothing"
	case len(names) > mostChanges:
		names = append(names[:mostChanges], "and more")
	}
	return printable.Text(strings.Join(names, ", "))
}

func decoded(value []byte) (map[string]any, bool) {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber() // 2^53+1 is not 2^53
	return m, d.Decode(&m) == nil && m != nil
}

// changed appends the names of the members that are not the same, as spec.host, in their order.
func changed(names []string, at string, was, is map[string]any) []string {
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, inA := was[name]
		b, inB := is[name]
		inner, aIsMap := a.(map[string]any)
		other, bIsMap := b.(map[string]any)
		switch {
		case aIsMap && bIsMap:
			names = changed(names, at+name+".", inner, other)
		case inA != inB || !reflect.DeepEqual(a, b):
			names = append(names, at+name)
		}
	}
	return names
}
