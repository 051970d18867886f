package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// introspect is the flag with which the nats command line asks a plugin for its commands (nats plugins register).
const introspect = "--fisk-introspect"

// The model of commands as package fisk reads it.
type (
	fiskFlag struct {
		Name       string   `json:"name"`
		Help       string   `json:"help"`
		Short      rune     `json:"short,omitempty"`
		Default    []string `json:"default,omitempty"`
		Boolean    bool     `json:"boolean"`
		Cumulative bool     `json:"cumulative"`
	}
	fiskArg struct {
		Name       string `json:"name"`
		Help       string `json:"help"`
		Cumulative bool   `json:"cumulative"`
	}
	fiskCommand struct {
		Name     string        `json:"name"`
		Help     string        `json:"help"`
		HelpLong string        `json:"help_long,omitempty"`
		Default  bool          `json:"default,omitempty"`
		Flags    []fiskFlag    `json:"flags,omitempty"`
		Args     []fiskArg     `json:"args,omitempty"`
		Commands []fiskCommand `json:"commands,omitempty"`
	}
)

// itself is the hidden command below one that has others below it and does something by itself: the nats command line
// runs nothing but leaves.
const itself = "itself"

// addLeaves gives each such command a leaf that does the same.
func addLeaves(c *cobra.Command) {
	for _, sub := range c.Commands() {
		addLeaves(sub)
	}
	if c.Runnable() && c.HasSubCommands() {
		leaf := &cobra.Command{Use: itself, Short: c.Short, Args: c.Args, RunE: c.RunE, Hidden: true}
		leaf.Flags().AddFlagSet(c.LocalNonPersistentFlags())
		c.AddCommand(leaf)
	}
}

// fiskModel is the model of all commands.
func fiskModel(root *cobra.Command) ([]byte, error) {
	m := fiskOf(root)
	m.Flags = fiskFlags(root.PersistentFlags())
	return json.Marshal(m)
}

func fiskOf(c *cobra.Command) fiskCommand {
	m := fiskCommand{Name: c.Name(), Help: c.Short, HelpLong: c.Long, Default: c.Name() == itself}
	for _, sub := range c.Commands() {
		if name := sub.Name(); name != "help" && name != "completion" {
			m.Commands = append(m.Commands, fiskOf(sub))
		}
	}
	if len(m.Commands) == 0 {
		m.Flags = fiskFlags(c.LocalNonPersistentFlags())
		// One argument for all words, since the nats command line hands on several in no order.
		m.Args = []fiskArg{{Name: "words", Help: "what follows, as nagi has it", Cumulative: true}}
	}
	return m
}

func fiskFlags(set *pflag.FlagSet) (flags []fiskFlag) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		one := fiskFlag{Name: f.Name, Help: f.Usage, Boolean: f.Value.Type() == "bool"}
		for _, r := range f.Shorthand {
			one.Short = r
		}
		_, one.Cumulative = f.Value.(pflag.SliceValue)
		flags = append(flags, one)
	})
	return flags
}
