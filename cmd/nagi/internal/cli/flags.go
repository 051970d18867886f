package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// oneOf adds the flag -o with some formats, of which the first is the default. One that ends in "=" takes what follows.
func oneOf(cmd *cobra.Command, output *string, formats ...string) {
	v := &choice{to: output, of: formats}
	*output = formats[0]
	cmd.Flags().VarP(v, "output", "o", strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// choice is the value of a flag that takes one of some words.
type choice struct {
	to *string
	of []string
}

func (c *choice) String() string { return *c.to }
func (c *choice) Type() string   { return "format" }

func (c *choice) Set(s string) error {
	fits := func(format string) bool {
		return format == s || strings.HasSuffix(format, "=") && strings.HasPrefix(s, format) && s != format
	}
	if !slices.ContainsFunc(c.of, fits) {
		return fmt.Errorf("it is one of %s", strings.Join(c.of, ", "))
	}
	*c.to = s
	return nil
}
