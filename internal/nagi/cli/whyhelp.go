package cli

import (
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// help is a command that helps, and what it does.
type help struct {
	Command string `json:"command"`
	Does    string `json:"does"`
}

// about is a kind, or a key of it, as commands take it: with --bucket where the registry does not have it.
func (s *session) about(k *kinds.Kind, key string) string {
	if k.Registered {
		about := printable.Typed(k.Name(), "KIND")
		if key != "" {
			about += "/" + printable.Typed(key, "KEY")
		}
		return about
	}
	words := []string{"--bucket=" + printable.Typed(k.Bucket, "BUCKET")}
	switch k.StatusBucket {
	case k.Bucket + "-status":
	case "":
		words = append(words, "--status-bucket="+entity.NoStatusBucket)
	default:
		words = append(words, "--status-bucket="+printable.Typed(k.StatusBucket, "BUCKET"))
	}
	if k.Namespaced {
		words = append(words, "--namespaced")
	}
	if name := s.t.plain.controller; name != "" {
		words = append(words, "--controller="+printable.Typed(name, "CONTROLLER"))
	}
	if key != "" {
		words = append(words, printable.Typed(key, "KEY"))
	}
	return strings.Join(words, " ")
}

// helpVerbs are commands in the order in which they are safe, with what each does. Those of the brake are about the
// kind.
var helpVerbs = []struct {
	name, does string
	kind       bool
}{
	{"describe", "shows document, status, conditions, events", false},
	{"events", "shows what the controller reported", false},
	{"tree", "shows what it owns, down to the leaves", false},
	{"get", "lists the documents that there are", true},
	{"top", "shows the controllers, and who leads", false},
	{"doctor", "looks for what is wrong with the controllers, and says what to do", true},
	{"orphans", "lists what has no owner any more", true},
	{"brake", "says what the brake holds, and why", true},
	{"reconcile", "tries it again now", false},
	{"unpark", "tries it again, once the cause is mended", false},
	{"resume", "takes the annotation nagi/suspend away: it is reconciled again", false},
	{"edit", "changes the document; it is checked first", false},
	{"suspend", "leaves it alone until resumed; a delete is still carried out", false},
	{"restore", "puts documents back that vanished, after it has listed them", true},
	{"brake release", "deletes for good what the brake holds: last, with the count that nagi brake shows", true},
}

// helpful are the commands that help in a state.
var helpful = map[controller.KeyState][]string{
	controller.StateUnknown:      {"get", "orphans"},
	controller.StateMalformed:    {"get"},
	controller.StateStopped:      {"top", "doctor"},
	controller.StateStarting:     {"top", "doctor"},
	controller.StateStandby:      {"top", "doctor"},
	controller.StateElsewhere:    {"top"},
	controller.StateRunning:      {"top"},
	controller.StateInvalid:      {"describe", "edit"},
	controller.StateUnreadable:   {"describe", "doctor"},
	controller.StateSuspended:    {"describe", "resume"},
	controller.StateHeld:         {"brake", "restore", "brake release"},
	controller.StateParked:       {"describe", "events", "edit", "unpark"},
	controller.StateReady:        {"top"},
	controller.StateAPI:          {"doctor", "events"},
	controller.StateTurn:         {"top"},
	controller.StateName:         {"events", "tree", "edit"},
	controller.StateLooping:      {"events", "tree", "suspend"},
	controller.StateRetry:        {"describe", "events", "reconcile"},
	controller.StateDeleting:     {"tree", "events", "doctor"},
	controller.StateUnreconciled: {"describe", "reconcile"},
}

// helps are the commands that help, safe first.
func (s *session) helps(a target, w *whyAnswer) []help {
	wanted := map[string]bool{}
	want := func(names ...string) {
		for _, name := range names {
			wanted[name] = true
		}
	}
	for i := range w.Says {
		e := &w.Says[i]
		want(helpful[e.State]...)
		if e.HoldsPrune {
			want("brake", "brake release")
		}
		if e.DocumentWarnings != "" {
			want("edit")
		}
		if len(e.Missing) > 0 {
			want("doctor")
		}
	}
	if len(w.Says) == 0 {
		want("describe", "events", "doctor")
	}
	all := []help{}
	for _, v := range helpVerbs {
		if !wanted[v.name] {
			continue
		}
		command := "nagi " + v.name
		switch {
		case v.name == "top":
		case v.kind:
			command += " " + s.about(a.kind, "")
		default:
			command += " " + s.about(a.kind, a.key)
		}
		if v.name == "brake release" {
			command += " --expect COUNT"
		}
		all = append(all, help{command, v.does})
	}
	return all
}
