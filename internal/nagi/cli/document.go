package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is docs/nagi.md, made from the commands.
func Page() string {
	var b strings.Builder
	root := Root()
	b.WriteString("<!-- Made by `go generate ./cmd/nagi` from the commands: change those. -->\n\n# nagi\n\n")
	fmt.Fprintf(&b, "%s\n\n", root.Long)
	fmt.Fprintf(&b, "Flags of each command:\n\n```\n%s```\n", usages(root.PersistentFlags()))
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				describeCommand(&b, c)
			}
		}
	}
	return b.String()
}

func describeCommand(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	if c.Runnable() {
		says := c.Long
		if says == "" {
			says = c.Short + "."
		}
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n```\n%s\n\n%s\n", c.CommandPath(), strings.TrimSpace(says), c.UseLine(),
			strings.Trim(c.Example, "\n"))
		if flags := usages(c.LocalNonPersistentFlags()); flags != "" {
			fmt.Fprintf(b, "\n%s", flags)
		}
		b.WriteString("```\n")
	}
	for _, sub := range c.Commands() {
		describeCommand(b, sub)
	}
}

func usages(set *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = set.SortFlags
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			shown.AddFlag(f)
		}
	})
	return shown.FlagUsages()
}
