package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
)

func (t *tool) actCommands() []*cobra.Command {
	return []*cobra.Command{
		t.planCommand(), t.reconcileCommand(), t.unparkCommand(), t.resyncCommand(),
		t.suspendCommand(), t.resumeCommand(),
		t.brakeCommand(), t.restoreCommand(), t.orphansCommand(),
	}
}

// keysHelp is what each command that takes keys says of them.
const keysHelp = `Keys are KIND/KEY, or KIND and then keys; with -n they need no namespace. "-" reads more of them
from the standard input, a line each, as nagi get -o name prints them.`

// acted is what came of an act on one key.
type acted struct {
	Kind       string `json:"kind"`
	Key        string `json:"key"`
	Done       bool   `json:"done"`
	Changed    bool   `json:"changed"`
	Controller string `json:"controller,omitempty"`
	// Says is what to know besides: that the document was written without a controller, or why nothing was done.
	Says string `json:"says,omitempty"`
	err  error
}

// keysFrom are the targets that arguments name, and with "-" the standard input.
func (s *session) keysFrom(ctx context.Context, args []string, namespace string) (all []target, err error) {
	kind, whole := "", s.t.plain.Bucket == ""
	if whole && len(args) > 1 && args[0] != "-" && !strings.Contains(args[0], "/") {
		kind, args = args[0], args[1:]
	}
	add := func(arg string) error {
		words := []string{arg}
		if kind != "" {
			words = []string{kind, arg}
		}
		one, err := s.keyed(ctx, words, namespace)
		if err != nil {
			return fmt.Errorf("%s: %w", printable.Quote(arg), err)
		}
		all = append(all, one)
		return nil
	}
	for _, arg := range args {
		if arg != "-" {
			if err := add(arg); err != nil {
				return nil, err
			}
			continue
		}
		lines := bufio.NewScanner(s.t.In)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				if err := add(line); err != nil {
					return nil, err
				}
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read keys from the standard input: %w", err)
		}
	}
	if len(all) == 0 {
		return nil, usage(errNoKey)
	}
	return all, nil
}

// namespace is that of the key; "" where keys have none.
func (a target) namespace() string { return a.kind.NamespaceOf(a.key) }

// onKeys is a command that does something with keys, one after the other, and says of each what came of it.
type onKeys struct {
	namespace, output string
	// one acts on a key, and says what it did in words that follow the key.
	one  func(ctx context.Context, s *session, a target) acted
	says func(acted) string
}

func (k *onKeys) flags(t *tool, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&k.namespace, "namespace", "n", "", "namespace of the keys")
	oneOf(cmd, &k.output, "text", "json", "yaml")
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = t.completeTargets
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return k.run(cmd.Context(), t, args) }
}

// progressAfter is how long a command works before it says how far it is.
const progressAfter = time.Second

func (k *onKeys) run(ctx context.Context, t *tool, args []string) error {
	s, err := t.connect()
	if err != nil {
		return err
	}
	all, err := s.keysFrom(ctx, args, k.namespace)
	if err != nil {
		return err
	}
	told := time.Now()
	var results []acted
	var first error
	for i, a := range all {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %d of %d keys are done", i, len(all))
		}
		if k.output != "text" && time.Since(told) > progressAfter {
			told = time.Now()
			t.Notef("nagi: %d of %d keys\n", i, len(all))
		}
		r := k.one(ctx, s, a)
		r.Kind, r.Key, r.Done = a.kind.Name(), a.key, r.err == nil
		if r.err != nil {
			r.Says = r.err.Error()
			if first == nil {
				first = &coded{code: codeOf(ctx, r.err), err: r.err, silent: true}
			}
		}
		results = append(results, r)
		if k.output != "text" {
			continue
		}
		if r.err != nil {
			t.Notef("nagi: %s: %s\n", a, printable.Message(r.Says))
			continue
		}
		t.Printf("%s %s\n", a, k.says(r))
	}
	if err := t.as(k.output, results); err != nil {
		return err
	}
	return first
}

// as prints a value as JSON or YAML, and nothing in other formats.
func (t *tool) as(output string, v any) error {
	return printAs(&t.Streams, output, v, func() error { return nil })
}

// printAs prints v as -o says: as JSON, as YAML, or else as text does.
func printAs(to *out.Streams, output string, v any, text func() error) error {
	switch output {
	case "json":
		return to.JSON(v)
	case "yaml":
		return to.YAML(v)
	}
	return text()
}

// byControllers has each controller of a kind act on a key. It is done if one of them did it; the first refusal counts
// if none did.
func byControllers(
	ctx context.Context, s *session, a target, do func(ask.Controller) (changed bool, err error),
) (r acted) {
	all, err := s.controllers(a.kind)
	if err != nil {
		r.err = err
		return r
	}
	var errs []error
	for _, c := range all {
		changed, err := do(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.Controller = strings.Trim(r.Controller+", "+c.Name, ", ")
		r.Changed = r.Changed || changed
	}
	if r.Controller == "" {
		r.err = mostTelling(errs)
	}
	return r
}

// mostTelling is the error to tell where no controller did something: an answer says more than none.
func mostTelling(errs []error) error {
	for _, err := range errs {
		if _, ok := errors.AsType[*ask.Refused](err); ok {
			return err
		}
	}
	return errs[0]
}
