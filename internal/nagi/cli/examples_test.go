package cli

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandHasExamplesThatRun runs the examples of each command's help, in the world of [world.everyday], those of one
// command in one world. A line that ends with another code than 0 says so: "nagi get --not-ok  # exit code 4". What a
// line is for may stand behind "# ", too. Lines of a command with the annotation "examples: elsewhere" are run by a test of
// its own.
func TestEveryCommandHasExamplesThatRun(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if name := sub.Name(); name != "help" && name != "completion" && name != itself {
				visit(sub)
			}
		}
		if !c.Runnable() {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
			return
		}
		if c.Annotations["examples"] == "elsewhere" {
			return
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				for line := range strings.Lines(c.Example) {
					w.example(strings.TrimSpace(line))
				}
			})
		})
	}
	visit(Root())
}

// TestEveryCommandTakesJSON: where that is the format, nothing but JSON is printed, and with the same exit code.
func TestEveryCommandTakesJSON(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if name := sub.Name(); name != "help" && name != "completion" && name != itself {
				visit(sub)
			}
		}
		if !c.Runnable() {
			return
		}
		flag := c.Flags().Lookup("output")
		if flag == nil || flag.Value.Set("json") != nil {
			t.Errorf("%s has no -o json", c.CommandPath())
			return
		}
		if c.Annotations["examples"] == "elsewhere" {
			return
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				for line := range strings.Lines(c.Example) {
					w.exampleInJSON(strings.TrimSpace(line))
				}
			})
		})
	}
	visit(Root())
}

// exampleInJSON runs a line as example does, and wants JSON.
func (w *world) exampleInJSON(line string) {
	w.Helper()
	command, comment, _ := strings.Cut(line, " # ")
	if line == "" || strings.Contains(command, "--print") {
		return // the formats of bootstrap's rights are its own
	}
	r := w.example(command + " -o json # " + comment)
	d := json.NewDecoder(strings.NewReader(r.out))
	values := 0
	for ; ; values++ {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			w.Errorf("%s -o json: %v\n%s", command, err, r.out)
			return
		}
	}
	if values == 0 && r.code == 0 {
		w.Errorf("%s -o json prints nothing", command)
	}
}

var exitCode = regexp.MustCompile(`# exit code (\d)`)

// example runs a line "nagi … # exit code 4", or "… | nagi …", of which the first part is "echo '…'".
func (w *world) example(line string) (r ran) {
	w.Helper()
	if line == "" {
		return r
	}
	want := 0
	if m := exitCode.FindStringSubmatch(line); m != nil {
		want, _ = strconv.Atoi(m[1])
	}
	command, _, _ := strings.Cut(line, " # ")
	stdin := ""
	if echo, rest, ok := strings.Cut(command, " | "); ok {
		stdin, command = strings.Join(words(strings.TrimPrefix(echo, "echo ")), " ")+"\n", rest
	}
	args := words(command)
	if len(args) == 0 || args[0] != "nagi" {
		w.Errorf("the example %q does not begin with nagi", line)
		return r
	}
	if r = w.nagiWith(stdin, args[1:]...); r.code != want {
		w.Errorf("%s: exit code %d, want %d\n%s%s", line, r.code, want, r.out, r.err)
	}
	return r
}

// words splits a line as a shell does, as far as examples need it: blanks, and single and double quotes.
func words(line string) (all []string) {
	var b strings.Builder
	quote, inside := rune(0), false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == ' ':
			if b.Len() > 0 || inside {
				all = append(all, b.String())
			}
			b.Reset()
			inside = false
		default:
			b.WriteRune(r)
		}
	}
	return all
}
