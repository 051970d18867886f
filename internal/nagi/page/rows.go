package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// rows remembers what tables are made of: keys in their order, and the cells of documents at their revisions.
type rows struct {
	mu    sync.Mutex
	keys  map[*follow.Bucket]sortedKeys
	found map[search]sortedKeys
	cells map[string][]cell
}

type sortedKeys struct {
	version uint64
	keys    []string
}

// sorted are the keys of a bucket in their order. They must not be changed.
func (r *rows) sorted(b *follow.Bucket) []string {
	version := b.Version() // before the keys
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.keys[b]; ok && known.version == version {
		return known.keys
	}
	keys := b.Keys()
	slices.Sort(keys)
	if r.keys == nil {
		r.keys = map[*follow.Bucket]sortedKeys{}
	}
	r.keys[b] = sortedKeys{version, keys}
	return keys
}

// search is what was looked for in a bucket.
type search struct {
	bucket       *follow.Bucket
	query, state string
}

// mostSearches is how many results are remembered.
const mostSearches = 16

// matching are those of the keys of a bucket, in their order, that are asked for. They must not be changed.
func (r *rows) matching(b *follow.Bucket, keys []string, f filter, namespaced bool) []string {
	if len(f.words) == 0 && f.State == "" {
		return keys
	}
	version, at := b.Version(), search{b, f.Query, f.State}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.found[at]; ok && known.version == version {
		return known.keys
	}
	var fit []string
	for _, key := range keys {
		if d, ok := b.Get(key); ok && f.matches(&d, follow.ClientKey(key, namespaced)) {
			fit = append(fit, key)
		}
	}
	if r.found == nil || len(r.found) >= mostSearches {
		r.found = map[search]sortedKeys{}
	}
	r.found[at] = sortedKeys{version, fit}
	return fit
}

// mostCells is how many rows are remembered.
const mostCells = 5000

func (r *rows) remembered(at string) ([]cell, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cells, ok := r.cells[at]
	return cells, ok
}

func (r *rows) remember(at string, cells []cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cells == nil || len(r.cells) >= mostCells {
		r.cells = map[string][]cell{}
	}
	r.cells[at] = cells
}

// rowsOf reads the columns of documents, some at a time.
func (p *Page) rowsOf(
	ctx context.Context, kind *kinds.Kind, columns []kinds.Column, shown []follow.Document,
) []row {
	all := make([]row, len(shown))
	var reads sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range shown {
		reads.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			all[i] = p.rowOf(ctx, kind, columns, &shown[i])
		})
	}
	reads.Wait()
	return all
}

func (p *Page) rowOf(ctx context.Context, kind *kinds.Kind, columns []kinds.Column, d *follow.Document) row {
	key := follow.ClientKey(d.Key, kind.Namespaced)
	r := row{Key: printable.Text(key), State: stateOf(d)}
	cfg := kind.Config()
	if cfg.CheckKey(key) == nil {
		r.Path = pathOf(kind.Name(), key)
	}
	at := fmt.Sprintf("%s %s %d", kind.Bucket, d.Key, d.Revision)
	if s := d.State; s != nil {
		r.Good, r.Bad = s.OK() && !d.Gone(), !s.OK()
		r.Since = s.Since
		if !s.OK() {
			r.Message = printable.Text(firstLine(s.Message))
		}
		at += fmt.Sprintf(" %d", s.Revision)
	}
	if d.Gone() || r.Path == "" {
		r.Cells = make([]cell, len(columns))
		return r
	}
	if cells, ok := p.rows.remembered(at); ok {
		r.Cells = cells
		return r
	}
	read, err := p.read(ctx, kind, key)
	if err != nil {
		r.Cells = make([]cell, len(columns))
		return r
	}
	doc := kind.View(read)
	kind.Hide(doc)
	for i := range columns {
		one := cell{At: columns[i].Time(doc)}
		if one.At.IsZero() {
			one.Text = printable.Text(firstLine(columns[i].Text(doc, time.Now())))
		}
		r.Cells = append(r.Cells, one)
	}
	if read.Revision == d.Revision {
		p.rows.remember(at, r.Cells)
	}
	return r
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
