package page

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
)

// kindRow is a kind in the list of kinds.
type kindRow struct {
	Name, Bucket, Controllers string
	Path                      string
}

func (p *Page) listKinds(ctx context.Context, v *view) error {
	v.Title, v.At = "Kinds", "kinds"
	found, err := p.kinds(ctx)
	if err != nil {
		return err
	}
	var rows []kindRow
	for _, e := range found.Entries {
		row := kindRow{
			Name: registry.Key(e.Kind, e.APIVersion), Bucket: printable.Text(e.Bucket),
		}
		row.Path = pathOf(row.Name, "")
		var by []string
		for _, c := range e.Controllers {
			name := printable.Text(strings.TrimSpace(c.Name + " " + c.Version))
			if sharing := kinds.Sharing(&c); sharing != "" {
				name += " (" + sharing + ")"
			}
			by = append(by, name)
		}
		row.Controllers = strings.Join(by, ", ")
		rows = append(rows, row)
	}
	v.Parts = append(v.Parts, part{"kinds", "kinds", rows})
	return nil
}

// pathOf is the address of a kind, or of an object of it.
func pathOf(kind, key string) string {
	path := "/kinds/" + url.PathEscape(kind)
	if key != "" {
		path += "/" + url.PathEscape(key)
	}
	return path
}

// filter is what a table is asked for.
type filter struct {
	Query, State, After string
	words               []string // of Query
}

// matches reports whether a document is one of those that are asked for. Words with "=" are labels, others are parts of
// keys; all have to fit.
func (f filter) matches(d *follow.Document, key string) bool {
	switch {
	case f.State == "":
	case f.State == notOK:
		if d.State == nil || d.State.OK() && !d.Gone() {
			return false
		}
	case f.State != stateOf(d):
		return false
	}
	for _, word := range f.words {
		name, value, isLabel := strings.Cut(word, "=")
		switch {
		case strings.Contains(key, word):
		case !isLabel || d.Marks == nil:
			return false
		default:
			if got, ok := d.Marks.GetLabels()[name]; !ok || got != value {
				return false
			}
		}
	}
	return true
}

// notOK is the state that stands for all in which something is not well.
const notOK = "not-ok"

// stateOf is the phase of a document; "-" if it has no record.
func stateOf(d *follow.Document) string {
	switch {
	case d.Gone():
		return string(entity.PhaseDeleting)
	case d.State == nil:
		return "-"
	}
	return string(d.State.Phase)
}

var allStates = []entity.Phase{
	entity.PhaseSynced, entity.PhasePending, entity.PhaseRetrying, entity.PhaseTerminal, entity.PhaseInvalid,
	entity.PhaseSuspended, entity.PhaseDeleting, entity.PhaseUnknown,
}

// tableHead is the form above a table, which does not change by itself.
type tableHead struct {
	Kind, Path, Did string
	filter
	States []entity.Phase
}

// table is a page of documents.
type table struct {
	Columns []string
	Rows    []row
	All     int // of the bucket
	Fit     int // of those that were asked for
	From    int // the number of the first row
	First   string
	Next    string // addresses; "" if there is none
	Err     string
	Filling bool // not all keys are known yet
}

type row struct {
	Key, Path string
	State     string
	Bad, Good bool
	Message   string
	Since     time.Time
	Cells     []cell
}

// cell is what a column shows: a text, or a time.
type cell struct {
	Text string
	At   time.Time
}

// pageRows is how many rows a page has.
const pageRows = 50

func (p *Page) listDocuments(ctx context.Context, v *view, name string, query url.Values) error {
	kind, err := p.kind(ctx, name)
	if err != nil {
		return err
	}
	f := filter{printed(query.Get("q")), query.Get("state"), query.Get("after"), strings.Fields(query.Get("q"))}
	v.Title, v.At = printable.Text(kind.Name()), "kinds"
	v.Heading, v.Head = "tablehead", tableHead{
		printable.Text(kind.Name()), pathOf(kind.Name(), ""), acts[query.Get("did")].did, f, allStates,
	}
	t, err := p.table(ctx, kind, f)
	if err != nil {
		t.Err = printable.Message(err.Error())
	}
	v.Parts = append(v.Parts, part{"documents", "documents", t})
	return nil
}

// table reads a page of the documents of a kind: keys and states from what is followed, the rest from the server.
func (p *Page) table(ctx context.Context, kind *kinds.Kind, f filter) (table, error) {
	t := table{}
	bucket, err := p.followed(ctx, kind)
	if err != nil {
		return t, err
	}
	t.Filling = !bucket.Synced()
	columns := slices.DeleteFunc(kind.ColumnsOf(false), func(c kinds.Column) bool { return c.Path == "$.record.phase" })
	for _, c := range columns {
		t.Columns = append(t.Columns, printable.Text(c.Name))
	}
	keys := p.rows.sorted(bucket)
	t.All = len(keys)
	keys = p.rows.matching(bucket, keys, f, kind.Namespaced)
	t.Fit = len(keys)
	if f.After != "" {
		at, found := slices.BinarySearch(keys, f.After)
		if found {
			at++
		}
		t.From, keys = at, keys[at:]
	}
	more := len(keys) > pageRows
	var shown []follow.Document
	for _, key := range keys[:min(len(keys), pageRows)] {
		if d, ok := bucket.Get(key); ok {
			shown = append(shown, d)
		}
	}
	at := url.Values{}
	for name, value := range map[string]string{"q": f.Query, "state": f.State} {
		if value != "" {
			at.Set(name, value)
		}
	}
	path := pathOf(kind.Name(), "") + "?"
	if f.After != "" {
		t.First = path + at.Encode()
	}
	if more {
		at.Set("after", keys[pageRows-1])
		t.Next = path + at.Encode()
	}
	t.Rows = p.rowsOf(ctx, kind, columns, shown)
	return t, nil
}

// followed is the bucket of a kind, which is followed from now on. What is not read within a second is shown as far as
// it is there.
func (p *Page) followed(ctx context.Context, kind *kinds.Kind) (*follow.Bucket, error) {
	bucket, err := p.buckets.Follow(follow.Place{Bucket: kind.Bucket, StatusBucket: kind.StatusBucket})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := bucket.Wait(ctx); err != nil && ctx.Err() == nil {
		return nil, err
	}
	return bucket, nil
}

// printed is a text of the address without what cannot be typed and seen.
func printed(text string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}
