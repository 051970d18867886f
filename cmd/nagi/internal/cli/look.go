package cli

import (
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
)

func (t *tool) lookCommands() []*cobra.Command {
	return []*cobra.Command{t.kindsCommand(), t.getCommand()}
}

func (t *tool) kindsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "kinds",
		Short:   "List the kinds that there are, and their controllers",
		Example: "  nagi kinds\n  nagi kinds -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			found, err := s.kinds(cmd.Context())
			if err != nil {
				return err
			}
			for _, bad := range found.Invalid {
				t.Notef("nagi: %s\n", printable.Message(bad.Err.Error()))
			}
			switch output {
			case "json":
				return t.JSON(found.Entries)
			case "yaml":
				return t.YAML(found.Entries)
			}
			table := t.NewTable("kind", "bucket", "namespaced", "controllers")
			for _, e := range found.Entries {
				var by []string
				for _, c := range e.Controllers {
					by = append(by, strings.TrimSpace(c.Name+" "+c.Version))
				}
				namespaced := "no"
				if e.Namespaced {
					namespaced = "yes"
				}
				if err := table.Row(e.Kind, e.Bucket, namespaced, strings.Join(by, ", ")); err != nil {
					return err
				}
			}
			if table.Rows() == 0 {
				t.Notef("There are no kinds: a controller with the option registry.Publish publishes its own.\n")
			}
			return table.Flush()
		},
	}
	oneOf(cmd, &output, "table", "json", "yaml")
	return cmd
}
