package dryrun

import (
	"encoding/json"
	"fmt"
)

// Outcome is what a plan comes to.
type Outcome struct {
	Key        string   `json:"key"`
	Revision   uint64   `json:"revision,omitempty"`
	Operations string   `json:"operations"`
	Changes    []Change `json:"changes"`
	// MoreChanges is how many there are beside Changes, where an answer has no room for all.
	MoreChanges  int      `json:"moreChanges,omitempty"`
	Error        string   `json:"error,omitempty"`
	Waits        string   `json:"waits,omitempty"`
	RequeueAfter string   `json:"requeueAfter,omitempty"`
	Notes        []string `json:"notes,omitempty"`
}

// notesKept is how many notes an outcome has at most where it has to fit.
const notesKept = 20

// Fit leaves out notes, the fields of changes and then changes, each from the end, until the outcome has at most so
// many bytes as JSON. It reports whether it has.
func (o *Outcome) Fit(room int) bool {
	if n := len(o.Notes) - notesKept; n > 0 {
		o.Notes = append(o.Notes[:notesKept:notesKept], fmt.Sprintf("and %d notes more", n))
	}
	rest := *o
	rest.Changes, rest.MoreChanges = nil, len(o.Changes)
	all := size(rest)
	sizes := make([]int, len(o.Changes))
	for i := range o.Changes {
		sizes[i] = size(o.Changes[i]) + 1 // and a comma
		all += sizes[i]
	}
	for i := len(o.Changes) - 1; i >= 0 && all > room; i-- {
		c := &o.Changes[i]
		c.More += len(c.Fields)
		c.Fields = nil
		all -= sizes[i]
		sizes[i] = size(c) + 1
		all += sizes[i]
	}
	for n := len(o.Changes) - 1; n >= 0 && all > room; n-- {
		all -= sizes[n]
		o.Changes = o.Changes[:n]
		o.MoreChanges++
	}
	return all <= room
}

func size(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // all of it are strings and numbers
	}
	return len(data)
}
