package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// sections prints a description: lines of a name and a text, and sections below a title.
type sections struct {
	t    *tool
	b    bytes.Buffer
	says string // of tables, to be told once, below all
}

func (p *sections) line(name, text string, tone out.Tone) {
	if text != "" {
		fmt.Fprintf(&p.b, "%-13s%s\n", name+":", p.t.Paint(tone, printable.Message(text)))
	}
}

func (p *sections) title(text string) { fmt.Fprintf(&p.b, "%s\n", p.t.Paint(out.Bold, text+":")) }

// table prints rows below a title, if there are any.
func (p *sections) table(title string, header []string, all [][]out.Cell) error {
	if len(all) == 0 {
		return nil
	}
	p.title(title)
	var b, says bytes.Buffer
	streams := p.t.Streams
	streams.Out, streams.Err = &b, &says
	table := streams.NewTable(header...)
	for _, row := range all {
		if err := table.Cells(row...); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		p.b.WriteString("  " + line)
	}
	p.says = cmp.Or(p.says, says.String())
	return nil
}

func (t *tool) printDescription(d *description) error {
	p := &sections{t: t}
	now := time.Now()
	p.head(d, now)
	var rows [][]out.Cell
	for _, c := range d.Conditions {
		tone := out.Plain
		if c.Type == "Reconciled" {
			tone = map[bool]out.Tone{true: out.Good, false: out.Warn}[c.Status == "True"]
		}
		rows = append(rows, []out.Cell{{Text: c.Type}, {Text: string(c.Status), Tone: tone}, {Text: c.Reason},
			{Text: out.Age(now.Sub(c.LastTransitionTime.Time))}, {Text: strconv.FormatInt(c.ObservedGeneration, 10)},
			{Text: c.Message}})
	}
	header := []string{"type", "status", "reason", "age", "revision", "message"}
	if err := p.table("Conditions", header, rows); err != nil {
		return err
	}
	if err := p.owned(d); err != nil {
		return err
	}
	rows = nil
	for _, e := range d.Events {
		tone := out.Plain
		if e.Type != "Normal" {
			tone = out.Warn
		}
		age := out.Age(now.Sub(e.LastTimestamp.Time))
		if e.Count > 1 {
			age += fmt.Sprintf(" (x%d over %s)", e.Count, out.Age(now.Sub(e.FirstTimestamp.Time)))
		}
		rows = append(rows, []out.Cell{{Text: age}, {Text: e.Type, Tone: tone}, {Text: e.Reason},
			{Text: e.Source.Component}, {Text: e.Message}})
	}
	if err := p.table("Events", []string{"age", "type", "reason", "from", "message"}, rows); err != nil {
		return err
	}
	if err := p.document(d); err != nil {
		return err
	}
	if len(d.Notes) > 0 {
		p.title("Not looked at")
		for _, note := range d.Notes {
			fmt.Fprintf(&p.b, "  %s\n", printable.Message(note))
		}
	}
	_, err := p.b.WriteTo(t.Out)
	t.Notef("%s", p.says)
	return err
}

// head prints what fits on a line each.
func (p *sections) head(d *description, now time.Time) {
	p.line("Name", d.Key, out.Bold)
	p.line("Kind", d.Kind, out.Plain)
	at := fmt.Sprintf("%s, revision %d", d.Bucket, d.Revision)
	if d.Revision == 0 {
		at = d.Bucket + ": the document is gone, and its teardown is not over"
	}
	phase := string(d.Phase)
	if phase == "" {
		phase = "none: there is no record"
	}
	if d.Unread {
		at, phase = d.Bucket+": the document was not read", "not read"
	}
	p.line("Bucket", at, out.Plain)
	p.line("Phase", phase, phaseTone(string(d.Phase)))
	if d.Reconciled > 0 {
		p.line("Reconciled", fmt.Sprintf("revision %d", d.Reconciled), out.Plain)
	}
	p.line("Controller", d.Controller, out.Plain)
	if !d.FirstSeen.IsZero() {
		p.line("First seen", out.Age(now.Sub(d.FirstSeen))+" ago, "+d.FirstSeen.UTC().Format(time.RFC3339), out.Plain)
	}
	p.line("Expires", d.Expires, out.Plain)
	if o := d.Owner; o != nil {
		of := o.Kind + "/" + o.Key
		if o.Instance != "" {
			of += ", installation " + o.Instance
		}
		p.line("Owned by", of, out.Plain)
	}
	if i := d.Invalid; i != nil {
		at := i.Reason
		if i.Path != "" {
			at = i.Path + ": " + at
		}
		p.line("Invalid", fmt.Sprintf("revision %d: %s", i.Revision, at), out.Bad)
	}
	for _, w := range d.Why {
		says := w.Says
		if len(d.Why) > 1 {
			says = w.Controller + ": " + says
		}
		p.line("Why", says, out.Plain)
		if w.Error != "" && !strings.Contains(says, w.Error) {
			p.line("Error", w.Error, out.Bad)
		}
	}
}

func (p *sections) owned(d *description) error {
	var rows [][]out.Cell
	for _, o := range d.Owns {
		count, states := strconv.Itoa(o.Count), o.Says
		if o.Says != "" && o.Count == 0 {
			count = "?"
		}
		if o.Says == "" {
			states = statesOf(o.States)
		}
		keys := strings.Join(o.Keys, " ")
		if o.Count > len(o.Keys) {
			keys += " …"
		}
		rows = append(rows, []out.Cell{{Text: named(o.Resource)}, {Text: count}, {Text: states}, {Text: keys}})
	}
	return p.table("Owns", []string{"what", "count", "states", "keys"}, rows)
}

// statesOf tells how many are in which phase.
func statesOf(states map[string]int) string {
	var all []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		if state == "none" {
			all = append(all, fmt.Sprintf("%d without a record", states[state]))
			continue
		}
		all = append(all, fmt.Sprintf("%d %s", states[state], state))
	}
	return strings.Join(all, ", ")
}

func (p *sections) document(d *description) error {
	if d.Document == nil {
		return nil
	}
	title := "Document"
	if d.Revision == 0 {
		title = "Document, as it was last"
	}
	p.title(title)
	var b bytes.Buffer
	if err := (&out.Streams{Out: &b}).YAML(d.Document); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if text, ok := strings.CutSuffix(strings.TrimRight(line, "\n"), kinds.Hidden); ok {
			line = text + p.t.Paint(out.Faint, kinds.Hidden) + "\n"
		}
		p.b.WriteString("  " + line)
	}
	return nil
}
