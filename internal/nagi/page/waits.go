package page

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nagi-runtime/nagi/service"
)

// trouble is a key that is not well.
type trouble struct {
	Name, Path     string
	State, Message string
	Since          time.Time
	Attempts       int
}

// group are keys of one controller with one message.
type group struct {
	Message, State string
	Keys           int
	Oldest         trouble
}

type running struct {
	Name, Path string
	Since      time.Time
	Attempt    int
}

// waiting is what waits, of all controllers.
type waiting struct {
	All     int
	More    bool // there are more than were looked at
	Groups  []group
	Oldest  []trouble
	Loops   []trouble
	Running []running
	Errs    []string
}

// waits remembers what waits for a moment, for all who look.
type waits struct {
	turn turn.Turn
	last waiting
	at   time.Time
}

const (
	waitsKept = 3 * time.Second
	// mostTroubles is how many keys of a controller are looked at.
	mostTroubles = 10000
	mostGroups   = 50
	mostOldest   = 20
)

func (p *Page) waiting(ctx context.Context, v *view) error {
	v.Title, v.At = "What waits", "waits"
	found, err := p.kinds(ctx)
	if err != nil {
		return err
	}
	if err := p.waits.turn.Take(ctx); err != nil {
		return err
	}
	defer p.waits.turn.Give()
	if time.Since(p.waits.at) > waitsKept {
		p.waits.last = waiting{}
		for _, e := range found.Entries {
			for _, c := range e.Controllers {
				p.waitsOf(ctx, &kinds.Kind{Entry: e, Registered: true}, c.Name, &p.waits.last)
			}
		}
		p.waits.last.order()
		if ctx.Err() == nil {
			p.waits.at = time.Now()
		}
	}
	v.Parts = append(v.Parts, part{"waits", "waits", p.waits.last})
	return nil
}

// waitsOf adds what waits of a controller.
func (p *Page) waitsOf(ctx context.Context, kind *kinds.Kind, name string, all *waiting) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	groups := map[string]*group{}
	seen := 0
	for one, err := range p.controller(name).NotOK(ctx, "") {
		if err != nil {
			all.Errs = append(all.Errs, printable.Message(err.Error()))
			break
		}
		if seen++; seen > mostTroubles {
			all.More = true
			break
		}
		t := troubleOf(kind, one)
		all.Oldest = append(all.Oldest, t)
		if one.State == controller.StateLooping {
			all.Loops = append(all.Loops, t)
		}
		g := groups[t.State+" "+t.Message]
		if g == nil {
			g = &group{Message: t.Message, State: t.State, Oldest: t}
			groups[t.State+" "+t.Message] = g
		}
		g.Keys++
		if older(t, g.Oldest) < 0 {
			g.Oldest = t
		}
	}
	all.All += min(seen, mostTroubles)
	for _, g := range groups {
		all.Groups = append(all.Groups, *g)
	}
	var stats service.Stats
	if p.ask(ctx, name, "stats", nil, &stats) == nil && stats.LongestRunning != nil {
		l := stats.LongestRunning
		all.Running = append(all.Running, running{
			nameOf(kind, l.Key), pathOf(kind.Name(), l.Key), l.Since, l.Attempt,
		})
	}
}

func troubleOf(kind *kinds.Kind, one service.Listed) trouble {
	t := trouble{
		Name: nameOf(kind, one.Key), State: printable.Text(string(one.State)),
		Message: printable.Text(firstLine(one.Message)), Since: one.Since, Attempts: one.Attempts,
	}
	cfg := kind.Config()
	if cfg.CheckKey(one.Key) == nil {
		t.Path = pathOf(kind.Name(), one.Key)
	}
	return t
}

// older puts what waits for longest first, and what does not say since when last.
func older(a, b trouble) int {
	if a.Since.IsZero() != b.Since.IsZero() {
		if a.Since.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
}

func (w *waiting) order() {
	slices.SortFunc(w.Groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), older(a.Oldest, b.Oldest), strings.Compare(a.Message, b.Message))
	})
	slices.SortFunc(w.Oldest, older)
	slices.SortFunc(w.Loops, older)
	slices.SortFunc(w.Running, func(a, b running) int { return a.Since.Compare(b.Since) })
	w.Groups = w.Groups[:min(len(w.Groups), mostGroups)]
	w.Oldest = w.Oldest[:min(len(w.Oldest), mostOldest)]
	w.Loops = w.Loops[:min(len(w.Loops), mostOldest)]
}
