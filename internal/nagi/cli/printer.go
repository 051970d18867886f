package cli

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// printer prints documents in one format, as they come.
type printer interface {
	begin(k *kinds.Kind) error // documents of this kind follow
	show(c documents.Change, view map[string]any) error
	flush() error // prints what is held
	end() error   // prints what comes behind the last one, too
	count() int
}

// newPrinter makes the printer of a format. several says that there are kinds, and single that one key is named.
func (t *tool) newPrinter(g *getting, several, single bool) (printer, error) {
	one := single || g.watch
	switch g.output {
	case "table", "wide":
		return &rows{t: t, wide: g.output == "wide", namespace: g.namespace == "", watch: g.watch}, nil
	case "name":
		return &nameLines{t: t}, nil
	case "json", "yaml":
		return &objects{t: t, yaml: g.output == "yaml", one: one, watch: g.watch}, nil
	}
	return t.newPaths(strings.TrimPrefix(g.output, "jsonpath="), one)
}

// rows prints tables, one for each kind.
type rows struct {
	t                      *tool
	wide, namespace, watch bool

	kind    *kinds.Kind
	columns []kinds.Column
	table   *out.Table
	shown   int
}

func (p *rows) begin(k *kinds.Kind) error {
	if p.table != nil {
		if err := p.flush(); err != nil {
			return err
		}
		p.t.Printf("\n")
	}
	p.kind, p.columns = k, k.ColumnsOf(p.wide)
	var header []string
	if p.watch {
		header = append(header, "event")
	}
	if k.Namespaced && p.namespace {
		header = append(header, "namespace")
	}
	header = append(header, "name")
	for _, c := range p.columns {
		header = append(header, printable.Text(c.Name))
	}
	if p.wide {
		header = append(header, "expires")
	}
	p.table = p.t.NewTable(header...)
	if p.watch {
		p.table.Room(string(documents.TornDown)) // the longest
	}
	return nil
}

func (p *rows) show(c documents.Change, view map[string]any) error {
	p.shown++
	var cells []out.Cell
	if p.watch {
		cells = append(cells, out.Cell{Text: string(c.What), Tone: out.Faint})
	}
	namespace, name := "", c.Key
	if before, after, ok := strings.Cut(c.Key, "/"); ok && p.kind.Namespaced {
		namespace, name = before, after
	}
	if p.kind.Namespaced && p.namespace {
		cells = append(cells, out.Cell{Text: namespace})
	} else if namespace != "" && !p.namespace {
		name = strings.TrimPrefix(c.Key, namespace+"/")
	}
	cells = append(cells, out.Cell{Text: name})
	now := time.Now()
	for i := range p.columns {
		text := p.columns[i].Text(view, now)
		if c.Revision == 0 && p.columns[i].Path == revisionPath {
			text = ""
		}
		cells = append(cells, out.Cell{Text: text, Tone: toneOf(p.columns[i].Path, text)})
	}
	if p.wide {
		cells = append(cells, out.Cell{Text: endsIn(c.Expires, now)})
	}
	return p.table.Cells(cells...)
}

// endsIn says in how long a document ends by its TTL; "" if it has none.
func endsIn(expires string, now time.Time) string {
	ends, err := time.Parse(time.RFC3339, expires)
	if err != nil {
		return expires // never, or none
	}
	return "in " + out.Age(ends.Sub(now))
}

// The paths of default columns that are known here.
const (
	revisionPath = "$.metadata.resourceVersion"
	phasePath    = "$.record.phase"
)

// toneOf is the colour of a cell of a column.
func toneOf(path, text string) out.Tone {
	if path != phasePath {
		return out.Plain
	}
	return phaseTone(text)
}

// phaseTone is the colour of a phase or of a state.
func phaseTone(phase string) out.Tone {
	switch strings.ToLower(phase) {
	case "synced":
		return out.Good
	case "terminal", "invalid", "parked", "malformed", "unreadable", "held":
		return out.Bad
	case "retrying", "deleting", "suspended", "unknown", "retry", "api", "name", "looping":
		return out.Warn
	}
	return out.Plain
}

func (p *rows) flush() error {
	if p.table == nil {
		return nil
	}
	return p.table.Flush()
}
func (p *rows) end() error { return p.flush() }
func (p *rows) count() int { return p.shown }

// nameLines prints names as [target.String] has them, which other commands take.
type nameLines struct {
	t    *tool
	kind string
	buf  bytes.Buffer
	n    int
}

func (p *nameLines) begin(k *kinds.Kind) error { p.kind = target{kind: k}.String(); return nil }
func (p *nameLines) end() error                { return p.flush() }
func (p *nameLines) count() int                { return p.n }

func (p *nameLines) show(c documents.Change, _ map[string]any) error {
	p.n++
	p.buf.WriteString(p.kind + "/" + printable.Text(c.Key) + "\n")
	if p.buf.Len() < 1<<16 {
		return nil
	}
	return p.flush()
}

func (p *nameLines) flush() error {
	_, err := p.buf.WriteTo(p.t.Out)
	return err
}

// objects prints documents as JSON or YAML: one as it is, several as a list, those of a watch one after the other.
type objects struct {
	t         *tool
	yaml, one bool
	watch     bool

	kind *kinds.Kind
	buf  bytes.Buffer
	n    int
}

func (p *objects) begin(k *kinds.Kind) error { p.kind = k; return nil }
func (p *objects) count() int                { return p.n }

func (p *objects) show(c documents.Change, view map[string]any) error {
	object := p.kind.Object(view)
	if p.watch {
		object = map[string]any{"event": string(c.What), "object": object}
	}
	streams := out.Streams{Out: &p.buf}
	print := streams.JSON
	if p.yaml {
		print = streams.YAML
	}
	switch {
	case p.one && p.yaml && p.n > 0:
		p.buf.WriteString("---\n")
	case !p.one:
		p.open()
		at := p.buf.Len()
		if err := print(object); err != nil {
			return err
		}
		text := bytes.TrimSuffix(bytes.Clone(p.buf.Bytes()[at:]), []byte("\n"))
		p.buf.Truncate(at)
		p.item(text)
		p.n++
		if p.buf.Len() < 1<<16 {
			return nil
		}
		return p.flush()
	}
	p.n++
	return print(object)
}

// open prints how a list begins.
func (p *objects) open() {
	switch {
	case p.n > 0:
	case p.yaml:
		p.buf.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	default:
		p.buf.WriteString("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [\n")
	}
}

// item adds one to a list, indented.
func (p *objects) item(text []byte) {
	if p.yaml {
		p.buf.WriteString("- ")
		p.buf.Write(bytes.ReplaceAll(text, []byte("\n"), []byte("\n  ")))
		p.buf.WriteByte('\n')
		return
	}
	if p.n > 0 {
		p.buf.WriteString(",\n")
	}
	p.buf.WriteString("    ")
	p.buf.Write(bytes.ReplaceAll(text, []byte("\n"), []byte("\n    ")))
}

func (p *objects) flush() error {
	_, err := p.buf.WriteTo(p.t.Out)
	return err
}

func (p *objects) end() error {
	switch {
	case p.one:
	case p.n == 0 && p.yaml:
		p.buf.WriteString("apiVersion: v1\nkind: List\nitems: []\n")
	case p.yaml:
	case p.n == 0:
		p.buf.WriteString("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": []\n}\n")
	default:
		p.buf.WriteString("\n  ]\n}\n")
	}
	return errors.Join(p.flush())
}
