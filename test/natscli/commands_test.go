package natscli

import (
	"strings"
	"testing"
	"time"
)

// step is a command of a page, and what it shows.
type step struct {
	page, command string
	// as is the context in which it is given, see walk.try.
	as string
	// before brings about what the page says of the moment.
	before func(w *walk)
	// with returns words of the command and what takes their places: what the page leaves open, or made up.
	with func(w *walk) []string
	// endless marks a command that goes on until it is interrupted; meanwhile happens again and again until then.
	endless   bool
	meanwhile func(w *walk)
	// asks marks a command that asks for a yes at a terminal, whatever it is told. What it prints before is checked.
	asks bool
	// shows are parts of what it prints, check looks at all of that.
	shows []string
	check func(w *walk, out string)
}

func (s *step) run(w *walk) {
	w.Helper()
	if s.before != nil {
		s.before(w)
	}
	var words []string
	if s.with != nil {
		words = s.with(w)
	}
	line := strings.NewReplacer(append(words, "nats://nats:4222", w.url)...).Replace(s.command)
	var out string
	switch {
	case s.endless:
		out = s.untilShown(w, line)
	case s.asks:
		out = w.untilAsked(s.as, line)
	default:
		out = w.sh(s.as, line)
	}
	w.has(out, s.shows...)
	if s.check != nil {
		s.check(w, out)
	}
}

// untilShown runs a line until it has printed what it is to show. Meanwhile the world goes on.
func (s *step) untilShown(w *walk, line string) string {
	w.Helper()
	cmd := w.shell(s.as, "exec "+line)
	printed, err := cmd.StdoutPipe()
	must(w.T, err)
	must(w.T, cmd.Start())
	chunks := make(chan string)
	go func() {
		defer close(chunks)
		for chunk := make([]byte, 4096); ; {
			n, err := printed.Read(chunk)
			chunks <- string(chunk[:n])
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		_ = cmd.Process.Kill()
		for range chunks { // until it is closed
		}
		_ = cmd.Wait()
	}()
	out := ""
	for {
		select {
		case chunk, ok := <-chunks:
			if out += chunk; !ok || hasAll(out, s.shows) {
				return out
			}
		case <-time.After(200 * time.Millisecond):
			s.meanwhile(w)
		}
	}
}

// untilAsked runs a line up to its question, which it cannot ask without a terminal.
func (w *walk) untilAsked(as, line string) string {
	w.Helper()
	out, said, err := w.try(as, line)
	if err == nil || !strings.Contains(said, "cannot ask for confirmation without a terminal") {
		w.Errorf("%s: %s: it does not ask: %v\n%s%s", as, line, err, out, said)
	}
	return out
}

func hasAll(out string, wants []string) bool {
	for _, want := range wants {
		if !strings.Contains(out, want) {
			return false
		}
	}
	return true
}

// TestTheCommandsOfThePages work as they are written, and show what the page says.
func TestTheCommandsOfThePages(t *testing.T) {
	for _, of := range walks {
		t.Run(of.name, func(t *testing.T) {
			w := begin(t)
			of.begin(w)
			for _, s := range of.steps {
				s.run(w)
				if t.Failed() {
					t.Fatalf("that was %s: %s", s.page, s.command)
				}
			}
		})
	}
}
