package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongFlag is the error about a flag, with an example where the library has none.
func wrongFlag(err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok || wrong.GetFlag().Value.Type() != "duration" {
		return err
	}
	return fmt.Errorf("--%s %s is no duration: write it as 30s, 5m or 2h", wrong.GetFlag().Name,
		printable.Quote(wrong.GetValue()))
}

// checkNamespace refuses a namespace that is none: "*" would be that of all.
func checkNamespace(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("namespace")
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	cfg := entity.Config{Kind: "any", Bucket: "any", Namespaced: true}
	if err := cfg.CheckKey(flag.Value.String() + "/any"); err != nil || strings.Contains(flag.Value.String(), "/") {
		return fmt.Errorf("-n %s is no namespace: it has letters, digits, - and _, and none means all namespaces",
			printable.Quote(flag.Value.String()))
	}
	return nil
}

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
