package out

import (
	"bufio"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// Cell is one of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Table prints rows under a header, in columns that are as wide as the widest cell of the first rows; later rows that
// are wider push the rest of their line. So rows go out as they come, and as many as there are.
type Table struct {
	s      *Streams
	header []string
	widths []int
	held   [][]Cell
	w      *bufio.Writer
	rows   int
	first  int // how wide the first column is at least
	cut    bool
	told   bool // that cells are cut
}

// widthRows is how many rows decide how wide the columns are.
const widthRows = 200

// NewTable makes a table. Without a header, nothing but rows is printed.
func (s *Streams) NewTable(header ...string) *Table {
	t := &Table{s: s, header: header, w: bufio.NewWriterSize(s.Out, 1<<16)}
	if len(header) > 0 {
		cells := make([]Cell, len(header))
		for i, h := range header {
			cells[i] = Cell{Text: strings.ToUpper(h), Tone: Bold}
		}
		t.held = append(t.held, cells)
	}
	return t
}

// Room keeps room in the first column for any of these, which may come once the widths are settled.
func (t *Table) Room(texts ...string) {
	for _, text := range texts {
		t.first = max(t.first, utf8.RuneCountInString(text))
	}
}

// Row adds a row of plain cells.
func (t *Table) Row(texts ...string) error {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	return t.Cells(cells...)
}

// Cells adds a row. Texts of others are made printable, on one line. The last cell, behind which nothing stands in
// columns, has as much of its text as a message has; the others are names. What is cut ends with "…".
func (t *Table) Cells(cells ...Cell) error {
	t.rows++
	for i := range cells {
		text, cut := shown(cells[i].Text, i == len(cells)-1)
		cells[i].Text, t.cut = text, t.cut || cut
	}
	if t.widths == nil {
		t.held = append(t.held, cells)
		if len(t.held) < widthRows {
			return nil
		}
		return t.settle()
	}
	return t.print(cells)
}

// shown is a text as a cell has it, and whether that is less than all of it.
func shown(text string, last bool) (cell string, cut bool) {
	first, _, several := strings.Cut(text, "\n")
	if cell = printable.Text(first); cell == text {
		return cell, false
	}
	cut = endsCut(cell, first)
	if !several && !cut {
		return cell, false
	}
	if last {
		cell = printable.Message(text)
		return cell, endsCut(cell, text)
	}
	if !cut {
		cell += " …"
	}
	return cell, true
}

// endsCut reports whether package printable has shown less than all of a text, of which it says the size then.
func endsCut(cell, text string) bool {
	return strings.HasSuffix(cell, fmt.Sprintf("… (%d bytes)", len(text)))
}

// Rows is how many rows were added.
func (t *Table) Rows() int { return t.rows }

// Flush prints what is held, and says once where all of what is cut can be read. A table without a row prints nothing.
func (t *Table) Flush() error {
	if t.rows > 0 && t.widths == nil {
		if err := t.settle(); err != nil {
			return err
		}
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	if t.cut && !t.told {
		t.told = true
		t.s.Notef("nagi: what ends with … is cut: the same command with -o json shows all of it\n")
	}
	return nil
}

func (t *Table) settle() error {
	for _, row := range t.held {
		for i, c := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			if i == 0 {
				t.widths[0] = max(t.widths[0], t.first)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	for _, row := range t.held {
		if err := t.print(row); err != nil {
			return err
		}
	}
	t.held = nil
	return nil
}

func (t *Table) print(cells []Cell) error {
	for i, c := range cells {
		if _, err := t.w.WriteString(t.s.Paint(c.Tone, c.Text)); err != nil {
			return err
		}
		if i == len(cells)-1 {
			break
		}
		pad := 3
		if i < len(t.widths) {
			pad += max(0, t.widths[i]-utf8.RuneCountInString(c.Text))
		}
		if _, err := t.w.WriteString(strings.Repeat(" ", pad)); err != nil {
			return err
		}
	}
	return t.w.WriteByte('\n')
}
