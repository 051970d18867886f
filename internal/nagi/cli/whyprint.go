package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// print is for people.
func (w *whyAnswer) print(s *out.Streams, a target) {
	s.Printf("%s\n", s.Paint(out.Bold, a.String()))
	for i := range w.Says {
		w.Says[i].print(s)
	}
	if len(w.Says) == 0 {
		says := "No controller answers."
		if len(w.Unanswered) > 0 && denied(w.Unanswered[0].err) {
			says = "The user may not ask the controllers."
		}
		s.Printf("\n  %s ", says)
		if r := w.Record; r != nil {
			s.Printf("This is what the record says, which may be old:\n")
			whyField(s, "phase", printable.Text(string(r.Phase))+forSince(r.Since))
			whyField(s, "message", r.Message)
			whyField(s, "controller", r.Controller)
		} else {
			s.Printf("And %s.\n", w.notRecorded())
		}
	}
	if len(w.Commands) == 0 {
		return
	}
	s.Printf("\nWhat helps, the safe first:\n")
	wide := 0
	for _, c := range w.Commands {
		wide = max(wide, len(c.Command))
	}
	for _, c := range w.Commands {
		s.Printf("  %-*s  %s\n", wide, c.Command, s.Paint(out.Faint, "# "+c.Does))
	}
}

// whyField prints one of a list, if it says something.
func whyField(s *out.Streams, name, text string) {
	if text != "" {
		s.Printf("    %-12s %s\n", name, text)
	}
}

// forSince is how long ago something was, and when.
func forSince(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" for %s (since %s)", out.Age(time.Since(t)), clockTime(t))
}

// clockTime is a time as a person reads it: that of today without the date.
func clockTime(t time.Time) string {
	t = t.Local()
	if y, m, d := time.Now().Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// dueIn is how long there is until then.
func dueIn(t time.Time) string {
	if left := time.Until(t); left >= 0 {
		return fmt.Sprintf("in %s (at %s)", out.Age(left.Round(time.Second)), clockTime(t))
	}
	return fmt.Sprintf("now (since %s)", clockTime(t))
}

// stateTone are the tones of the states; others are plain.
func stateTone(state controller.KeyState) out.Tone {
	switch state {
	case controller.StateCalm:
		return out.Good
	case controller.StateParked, controller.StateInvalid, controller.StateUnreadable, controller.StateRetry,
		controller.StateMalformed:
		return out.Bad
	case controller.StateHeld, controller.StateSuspended, controller.StateAPI, controller.StateName,
		controller.StateLooping, controller.StateDeleting, controller.StateStandby, controller.StateElsewhere,
		controller.StateStarting, controller.StateStopped:
		return out.Warn
	}
	return out.Plain
}

func (e *controllerIs) print(s *out.Streams) {
	state := s.Paint(stateTone(e.State), printable.Text(string(e.State)))
	s.Printf("\n  %s: %s%s\n", printable.Text(e.Controller), state, forSince(e.Since))
	s.Printf("    %s\n", printable.Message(e.Says))
	if !e.Leading && e.State != controller.StateElsewhere { // whose words say who knows more
		leader := ""
		if e.Leader != "" {
			leader = ", the leader is " + printable.Text(e.Leader)
		}
		s.Printf("    %s\n", s.Paint(out.Warn, "A standby says so, which knows less than the leader"+leader+"."))
	}
	e.printRuns(s)
	e.printWaits(s)
	for _, m := range e.Missing {
		why := ""
		if m.Why != "" {
			why = ": " + printable.Message(m.Why)
		}
		whyField(s, "no news", "of "+printable.Text(m.Source)+forSince(m.Since)+why)
	}
	if e.DocumentWarnings != "" {
		whyField(s, "not read", printable.Message(e.DocumentWarnings))
	}
	if e.Recorded != "" {
		message := ""
		if e.RecordedMessage != "" {
			message = ": " + printable.Message(e.RecordedMessage)
		}
		whyField(s, "recorded", printable.Text(e.Recorded)+message)
	}
	if e.ReconciledRevision > 0 {
		took := ""
		if e.Took > 0 {
			took = fmt.Sprintf(", took %v", e.Took.Round(time.Millisecond))
		}
		whyField(s, "reconciled", fmt.Sprintf("revision %d%s%s", e.ReconciledRevision, forSince(e.ReconciledAt), took))
	}
}

// printRuns tells of attempts, and of when the next one is due.
func (e *controllerIs) printRuns(s *out.Streams) {
	if !e.RunningSince.IsZero() {
		whyField(s, "runs", fmt.Sprintf("attempt %d%s", e.Attempt, forSince(e.RunningSince)))
	}
	if e.Failures > 0 {
		whyField(s, "attempts", fmt.Sprintf("%d failed%s", e.Failures, forSince(e.FailingSince)))
	}
	if e.Error != "" {
		whyField(s, "last error", printable.Message(e.Error))
	}
	if i := e.Invalid; i != nil {
		at := ""
		if i.Path != "" {
			at = "at " + printable.Text(i.Path)
		}
		if i.Line > 0 {
			at = strings.TrimSpace(fmt.Sprintf("%s line %d, column %d", at, i.Line, i.Column))
		}
		whyField(s, "invalid", strings.TrimSpace(fmt.Sprintf("revision %d %s", i.Revision, at)))
	}
	if !e.ReadySince.IsZero() {
		whyField(s, "ready", fmt.Sprintf("priority %s%s", e.Priority, forSince(e.ReadySince)))
	}
	switch {
	case !e.DueAt.IsZero():
		whyField(s, "due", dueIn(e.DueAt))
	case !e.UserDueAt.IsZero():
		whyField(s, "due", dueIn(e.UserDueAt))
	}
	if e.WokenBy != "" {
		name := "woken by"
		if !e.DueAt.IsZero() {
			name = "earlier by"
		}
		whyField(s, name, e.WokenBy)
	}
}

// printWaits tells what the key waits for.
func (e *controllerIs) printWaits(s *out.Streams) {
	waits := func(name string) { whyField(s, "waits for", name) }
	if e.AwaitsAPI != "" {
		waits("the API of " + printable.Text(e.AwaitsAPI) + ", which is away")
	}
	if e.AwaitsTurn != "" {
		waits("a turn at the API of " + printable.Text(e.AwaitsTurn) + ", whose rate is limited")
	}
	for _, name := range e.AwaitsNames {
		waits("the name " + printable.Text(name) + ", which another document has")
	}
	if e.Held {
		waits("the brake, which holds its delete")
	}
	if e.HoldsPrune {
		waits("the brake, which holds the delete of something that it owns and does not want any more")
	}
	if e.AwaitsWrites {
		waits("the caches to show what its last reconcile wrote")
	}
	if e.StillThereAll > 0 {
		waits(fmt.Sprintf("%d that it owned to be gone: %s", e.StillThereAll,
			printable.Message(strings.Join(e.StillThere, ", "))))
	}
}
