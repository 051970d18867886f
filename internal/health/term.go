package health

import (
	"context"
	"maps"
	"slices"

	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// Term is the time in which a replica leads. What is reported under one of its contexts belongs to it, and goes with
// it: nothing that this replica does afterwards would tell that it works again, and the next leader reports it. The
// methods may be called concurrently.
type Term struct {
	board *Board
	over  bool // needs reporting of the board
}

type termKey struct{}

// NewTerm begins a term.
func (b *Board) NewTerm() *Term { return &Term{board: b} }

// Of returns ctx as a context of the term.
func (t *Term) Of(ctx context.Context) context.Context { return context.WithValue(ctx, termKey{}, t) }

// termOf is the term whose context ctx is; nil if it is none's.
func termOf(ctx context.Context) *Term {
	t, _ := ctx.Value(termKey{}).(*Term)
	return t
}

// End takes off the board what belongs to the term, see Board.Leave. Of what is reported later under a context of the
// term, only Leave is heard.
func (t *Term) End(ctx context.Context) {
	b := t.board
	b.reporting.Lock()
	defer b.reporting.Unlock()
	t.over = true
	var told []string
	b.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		e := b.byName[name]
		if e.term != t {
			continue
		}
		delete(b.byName, name)
		if !e.covered {
			told = append(told, name)
			b.tell(news{name: name, left: true})
		}
	}
	b.mu.Unlock()
	logger := printable.Logger(klog.FromContext(ctx))
	for _, name := range told {
		logger.Info(reportedElsewhere, "source", name)
	}
	b.tellLink(ctx)
}
