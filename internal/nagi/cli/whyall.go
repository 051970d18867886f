package cli

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// waiting is a group of keys of one controller that are in one state, for what is one reason but for names and numbers.
type waiting struct {
	Kind       string              `json:"kind"`
	Controller string              `json:"controller"`
	State      controller.KeyState `json:"state"`
	NotOK      bool                `json:"notOK"` // it stands still until something is mended, or fails
	Count      int                 `json:"count"`
	Oldest     time.Time           `json:"oldest,omitzero"`
	Attempts   int                 `json:"attempts,omitempty"` // the most that failed of one key
	Message    string              `json:"message"`            // that of the example
	Example    string              `json:"example"`            // the key that is so for longest
}

// allWaiting is what `nagi why` finds.
type allWaiting struct {
	Groups     []*waiting   `json:"groups"`
	Unanswered []unanswered `json:"unanswered,omitempty"`
	// Unlisted names the controllers of which more keys wait than were looked at.
	Unlisted []string `json:"unlisted,omitempty"`

	mu      sync.Mutex
	byCause map[cause]*waiting
}

type cause struct {
	controller, kind string
	state            controller.KeyState
	text             string
}

// mostPages is how many pages of keys that wait for a worker are looked at; of keys that are not well, all are.
const mostPages = 10

// atWork are the states of keys that are well, and not done.
var atWork = []controller.KeyState{
	controller.StateRunning, controller.StateHandling, controller.StateReady, controller.StateTurn,
	controller.StateOwnWrites, controller.StateArriving, controller.StateUnreconciled,
}

func (s *session) whyAll(ctx context.Context, k *kinds.Kind, f whyFlags) error {
	all, err := s.askedOf(ctx, k)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return s.nothingToAsk(ctx)
	}
	w := &allWaiting{Groups: []*waiting{}, byCause: map[cause]*waiting{}}
	eachAsked(all, func(_ int, c asked) {
		if err := w.read(ctx, c, f.namespace); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.Unanswered = append(w.Unanswered, noAnswerOf(c, err))
		}
	})
	w.sort()
	if err := printAs(&s.t.Streams, f.output, w, func() error { return s.printAll(w, f) }); err != nil {
		return err
	}
	err = s.t.tellUnanswered(ctx, w.Unanswered, len(all)-len(w.Unanswered))
	s.t.tellNamespace(err, f.namespace)
	return err
}

// read asks a controller for its keys that are not well, and for those that wait for a worker or have one.
func (w *allWaiting) read(ctx context.Context, c asked, namespace string) error {
	for key, err := range c.NotOK(ctx, namespace) {
		if err != nil {
			return err
		}
		w.add(c, &key, true)
	}
	after := ""
	for range mostPages {
		var page service.List
		request := service.ListRequest{States: atWork, After: after}
		if err := c.Do(ctx, ask.Read, "list", namespace, request, &page); err != nil {
			return err
		}
		for i := range page.Keys {
			if page.Keys[i].Attempts == 0 { // else it was among the others
				w.add(c, &page.Keys[i], false)
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Unlisted = append(w.Unlisted, c.Name)
	return nil
}

func (w *allWaiting) add(c asked, key *service.Listed, notOK bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := cause{c.Name, c.kind.Name(), key.State, gist(key.Message, key.Key)}
	g := w.byCause[of]
	if g == nil {
		g = &waiting{Kind: of.kind, Controller: of.controller, State: of.state, NotOK: notOK}
		w.byCause[of] = g
		w.Groups = append(w.Groups, g)
	}
	g.Count++
	g.Attempts = max(g.Attempts, key.Attempts)
	if older := !key.Since.IsZero() && (g.Oldest.IsZero() || key.Since.Before(g.Oldest)); older || g.Example == "" {
		g.Oldest, g.Example, g.Message = key.Since, key.Key, printable.Message(key.Message)
	}
}

// numbers are what differs between messages of one cause: times, addresses, revisions, ids.
var numbers = regexp.MustCompile(`[0-9a-fA-F-]*[0-9][0-9a-fA-F:.-]*`)

// gist is a message without the names and numbers of one key.
func gist(message, key string) string {
	message = withoutWord(message, key)
	if _, name, ok := strings.Cut(key, "/"); ok {
		message = withoutWord(message, name)
	}
	return numbers.ReplaceAllString(message, "N")
}

// withoutWord is a text in which "KEY" stands for a word.
func withoutWord(text, word string) string {
	isPart := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	var b strings.Builder
	for last := byte(' '); ; {
		before, after, found := strings.Cut(text, word)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if before != "" {
			last = before[len(before)-1]
		}
		if isPart(last) || after != "" && isPart(after[0]) {
			b.WriteString(word)
		} else {
			b.WriteString("KEY")
		}
		last, text = word[len(word)-1], after
	}
}

// sort puts what is not well first, then the groups with most keys, and of these the oldest.
func (w *allWaiting) sort() {
	slices.SortFunc(w.Groups, func(a, b *waiting) int {
		if a.NotOK != b.NotOK {
			if a.NotOK {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Oldest.Compare(b.Oldest), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Example, b.Example))
	})
	slices.SortFunc(w.Unanswered, func(a, b unanswered) int { return strings.Compare(a.Controller, b.Controller) })
	slices.Sort(w.Unlisted)
}

func (s *session) printAll(w *allWaiting, f whyFlags) error {
	table := s.t.NewTable("count", "state", "for", "failed", "example", "message")
	for i, g := range w.Groups {
		if f.most > 0 && i == f.most {
			s.t.Notef("There are %d more groups: --most 0 shows them.\n", len(w.Groups)-i)
			break
		}
		age, failed := "-", "-"
		if !g.Oldest.IsZero() {
			age = out.Age(time.Since(g.Oldest))
		}
		if g.Attempts > 0 {
			failed = fmt.Sprint(g.Attempts)
		}
		plain := func(text string) out.Cell { return out.Cell{Text: text} }
		state := out.Cell{Text: string(g.State), Tone: stateTone(g.State)}
		err := table.Cells(plain(fmt.Sprint(g.Count)), state, plain(age), plain(failed), plain(g.Kind+"/"+g.Example),
			plain(g.Message))
		if err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, name := range w.Unlisted {
		s.t.Notef("Of controller %s more keys wait than were looked at: nagi top has the counts.\n",
			printable.Quote(name))
	}
	switch {
	case len(w.Groups) > 0:
		s.t.Notef("nagi why KIND/KEY says more of one, and which command helps.\n")
	case len(w.Unanswered) == 0:
		s.t.Notef("All is well: nothing fails, and nothing waits.\n")
	}
	return nil
}
