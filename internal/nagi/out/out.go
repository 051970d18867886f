// Package out is where commands print: to a terminal, a file or a pipe.
//
// The rule: what others wrote reaches it as printable text, colours only a terminal, and what a script reads is the
// same on both.
package out

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal says that Out is a terminal, and Interactive that In is one, so that somebody can be asked.
	Terminal, Interactive bool
	// Colour says that Out takes colours: it is a terminal, and neither NO_COLOR nor --no-color says otherwise.
	Colour bool
	// Columns is how wide the terminal is; 0 if that is not known.
	Columns int
}

// Printf prints a line or more.
func (s *Streams) Printf(format string, args ...any) { fmt.Fprintf(s.Out, format, args...) }

// Notef prints what is not the result: progress, and what to do next.
func (s *Streams) Notef(format string, args ...any) { fmt.Fprintf(s.Err, format, args...) }

// TellIfSlow says what is done, if that takes more than a second. Nothing is printed after done has returned.
func (s *Streams) TellIfSlow(what string) (done func()) {
	ended := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		slow := time.NewTimer(time.Second)
		defer slow.Stop()
		select {
		case <-slow.C:
			s.Notef("%s\n", what)
		case <-ended:
		}
	})
	return func() {
		close(ended)
		telling.Wait()
	}
}

// Tone is what a colour says.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good
	Bad
	Warn
	Faint
	Bold
)

var codes = map[Tone]string{Good: "32", Bad: "31", Warn: "33", Faint: "2", Bold: "1"}

// Paint colours a text if that is wanted.
func (s *Streams) Paint(t Tone, text string) string {
	if !s.Colour || t == Plain || text == "" {
		return text
	}
	return "\x1b[" + codes[t] + "m" + text + "\x1b[0m"
}

// JSON prints a value, indented, with what is no printable text escaped as JSON has it.
func (s *Streams) JSON(v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(text)
	return err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return escaped(b.Bytes()), nil
}

// escaped escapes runes of JSON that a terminal must not see: controls of C1, and marks of direction.
func escaped(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		if r == '\n' || printable.Text(string(r)) == string(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.Bytes()
}

// YAML prints a value as the YAML of its JSON, with numbers as they are written. Where that would have what is no
// printable text, such as marks of direction, it prints the JSON, which is YAML too.
func (s *Streams) YAML(v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	var read any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&read); err != nil {
		return err
	}
	plain, err := manifests.YAML(read)
	if err != nil {
		return err
	}
	if bytes.Equal(escaped(plain), plain) {
		text = plain
	}
	_, err = s.Out.Write(text)
	return err
}

// Age is how long ago something was, as kubectl tells it: 5s, 3m, 2h, 4d.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		if s := int(d.Seconds()) % 60; s != 0 {
			return fmt.Sprintf("%dm%ds", int(d.Minutes()), s)
		}
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 8*time.Hour:
		if m := int(d.Minutes()) % 60; m != 0 {
			return fmt.Sprintf("%dh%dm", int(d.Hours()), m)
		}
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
