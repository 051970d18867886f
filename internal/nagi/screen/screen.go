// Package screen redraws in place what a command shows.
//
// The rule: nothing but plain ANSI, and only on a terminal. However it ends, the terminal is as it was before. A frame
// is cut to the size that the terminal has now, so a resize shows with the next look at it.
package screen

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"golang.org/x/term"
)

// Frame prints what is to be seen now to s, which is as wide as the terminal.
type Frame func(ctx context.Context, s *out.Streams) error

// looks is how often it is looked whether the terminal has another size.
const looks = 200 * time.Millisecond

const (
	begin  = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J" // the other screen, without a cursor
	end    = "\x1b[?25h\x1b[?1049l"
	home   = "\x1b[H"
	toEdge = "\x1b[K"
	below  = "\x1b[J"
)

// Show draws a frame each time every has passed, until ctx ends or somebody presses q or Ctrl-C, which is no error, or
// the frame fails, which is.
func Show(ctx context.Context, s *out.Streams, every time.Duration, frame Frame) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore := raw(s)
	defer restore()
	if s.Interactive {
		go quit(s.In, cancel)
	}
	io.WriteString(s.Out, begin)
	defer io.WriteString(s.Out, end)
	look := time.NewTicker(looks)
	defer look.Stop()
	var text string
	var drawn time.Time
	var columns, rows int
	for {
		nowColumns, nowRows := size(s)
		if resized := nowColumns != columns || nowRows != rows; resized || time.Since(drawn) >= every {
			columns, rows = nowColumns, nowRows
			var b bytes.Buffer
			of := *s
			of.Out, of.Err, of.Columns = &b, &b, columns // beside the frame it would blot it
			if err := frame(ctx, &of); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			text, drawn = b.String(), time.Now()
			draw(s.Out, text, columns, rows)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// draw writes over what was there. Rows that do not fit are left out.
func draw(w io.Writer, text string, columns, rows int) {
	var b strings.Builder
	b.WriteString(home)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if rows > 0 && len(lines) > rows {
		lines = lines[:rows]
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(Cut(line, columns))
		b.WriteString(toEdge)
	}
	b.WriteString(below)
	io.WriteString(w, b.String())
}

// Cut is a line of so many columns at most; colours take none. 0 columns mean any number.
func Cut(line string, columns int) string {
	if columns <= 0 || utf8.RuneCountInString(line) <= columns {
		return line
	}
	var b strings.Builder
	coloured, left := false, columns
	for len(line) > 0 {
		if strings.HasPrefix(line, "\x1b[") {
			if i := strings.IndexByte(line, 'm'); i >= 0 {
				b.WriteString(line[:i+1])
				coloured, line = line[:i+1] != "\x1b[0m", line[i+1:]
				continue
			}
		}
		if left == 0 {
			break
		}
		r, n := utf8.DecodeRuneInString(line)
		b.WriteRune(r)
		line, left = line[n:], left-1
	}
	if coloured {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// size is that of the terminal; 0 where it is not known.
func size(s *out.Streams) (columns, rows int) {
	if f, ok := s.Out.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil {
			return columns, rows
		}
	}
	return s.Columns, 0
}

// raw has each key read as it is pressed, if somebody is there to press one.
func raw(s *out.Streams) (restore func()) {
	f, ok := s.In.(*os.File)
	if !ok || !s.Interactive {
		return func() {}
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	return func() { _ = term.Restore(int(f.Fd()), before) }
}

// quit calls stop when q or Ctrl-C is pressed. It ends with the process, or with what it reads from.
func quit(in io.Reader, stop func()) {
	const interrupt = 3
	key := make([]byte, 1)
	for {
		if _, err := in.Read(key); err != nil {
			return
		}
		if key[0] == 'q' || key[0] == 'Q' || key[0] == interrupt {
			stop()
			return
		}
	}
}
