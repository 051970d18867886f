// Package cli has the commands of nagi.
//
// The rule: a command does one thing with the rights of its user, says what it did, and ends with a code that a script
// can read. Whatever would delete is counted and confirmed first.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/nagi/conn"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"
)

// Env is what surrounds a run of the tool.
type Env struct {
	out.Streams
	Options []nats.Option // of the connection, after all others
	// Edit has the user edit a file; nil runs $VISUAL or $EDITOR.
	Edit    func(ctx context.Context, file string) error
	Cluster OpenCluster // nil: as a kubeconfig says
}

// Process is the environment of this process. What libraries log is not shown.
func Process() Env {
	klog.SetLogger(logr.Discard())
	e := Env{Streams: out.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}}
	e.Terminal = term.IsTerminal(int(os.Stdout.Fd()))
	e.Interactive = e.Terminal && term.IsTerminal(int(os.Stdin.Fd()))
	e.Colour = e.Terminal && wantsColours(os.Getenv)
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		e.Columns = width
	}
	return e
}

// wantsColours reports whether the environment of a terminal lets it have colours (no-color.org).
func wantsColours(env func(string) string) bool {
	return env("NO_COLOR") == "" && env("TERM") != "dumb"
}

// tool is one run. Commands are its methods.
type tool struct {
	Env
	flags   conn.Flags
	plain   plainFlags
	prefix  string
	noColor bool
	session *session      // of the command that runs; made by connect
	lines   *bufio.Reader // of In, once somebody was asked
}

// Run runs one command line, without the program's name, and returns the exit code.
func Run(ctx context.Context, env Env, args []string) int {
	t := &tool{Env: env}
	root := t.root()
	if len(args) == 1 && args[0] == introspect {
		model, err := fiskModel(root)
		t.Printf("%s\n", model)
		return codeOf(ctx, err)
	}
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	t.close()
	if err == nil {
		return 0
	}
	code := codeOf(ctx, err)
	if text := said(err); text != "" && !isSilent(err) {
		fmt.Fprintf(t.Err, "nagi: %s\n", text)
	}
	if _, cluster := errors.AsType[*tree.Denied](err); code == CodeForbidden && !cluster {
		t.Notef("nagi bootstrap KIND --print=permissions prints what each role may: an administrator grants it\n")
	}
	if code == CodeUsage && ran != nil && !isSilent(err) {
		fmt.Fprintf(t.Err, "See %s --help\n", ran.CommandPath())
	}
	return code
}

// Root is the command with all others below it, for who documents them.
func Root() *cobra.Command {
	return (&tool{Env: Env{Streams: out.Streams{Out: os.Stdout, Err: os.Stderr}}}).root()
}

// groups are the commands, in the order in which help shows them. Each group has a file of its own.
func (t *tool) groups() []group {
	return []group{
		{"look", "Look", t.lookCommands()},
		{"ask", "Ask why", t.askCommands()},
		{"tree", "Follow owners", t.treeCommands()},
		{"write", "Write documents", t.writeCommands()},
		{"act", "Act", t.actCommands()},
		{"admin", "Set up and restore", t.adminCommands()},
		{"project", "Write a controller", t.projectCommands()},
		{"page", "The live page", t.pageCommands()},
	}
}

type group struct {
	id, title string
	commands  []*cobra.Command
}

func (t *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "nagi",
		Short: "Show, explain and change documents in NATS, and act on their controllers",
		Long: `nagi shows, explains and changes documents in NATS that controllers look after.

It connects as the nats command line does: with --context, --server and the like, with NATS_URL and the like, or
with the selected context. KIND is what the registry has (nagi kinds), in the singular, or as its bucket is called.

Exit codes: 0 done; 1 failed; 2 bad input; 3 not found; 4 it is not so (something is not well, a wait timed out, there
is a difference); 5 refused, as it has changed meanwhile or is not as the command says; 6 not permitted; 7 no answer.`,
		SilenceErrors: true, SilenceUsage: true, Version: version(),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if t.noColor {
				t.Colour = false
			}
			return usage(errors.Join(t.flags.Complete(), checkNamespace(cmd)))
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(wrongFlag(err)) })
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	t.flags.Register(flags)
	t.plain.register(flags)
	flags.StringVar(&t.prefix, "prefix", "", "prefix of the services API of the controllers (default nagi)")
	flags.BoolVar(&t.noColor, "no-color", false, "no colours, as with $NO_COLOR")
	t.flags.Options = t.Options
	for _, g := range t.groups() {
		if len(g.commands) == 0 {
			continue
		}
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	sayArguments(root)
	addLeaves(root)
	return root
}

// version is that of the module that the tool was built from, as the go command knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

// sayArguments has commands say what they take where arguments do not fit.
func sayArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		sayArguments(sub)
	}
	if fits := c.Args; fits != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if fits(cmd, args) == nil {
				return nil
			}
			says := "these arguments do not fit"
			if len(args) == 0 {
				says = "arguments are missing"
			}
			return usage(fmt.Errorf("%s: write %s", says, strings.TrimSuffix(c.UseLine(), " [flags]")))
		}
	}
}

// said is the text of an error. What cobra says over several lines of a command that does not exist is one.
func said(err error) string {
	text, meant, guessed := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if guessed {
		text += ": did you mean " + strings.Join(strings.Fields(meant), " or ") + "?"
	}
	return strings.TrimSuffix(printable.Message(text), "\n")
}
