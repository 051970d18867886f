package cli

import (
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/cobra"
)

func (t *tool) lookCommands() []*cobra.Command {
	return []*cobra.Command{t.kindsCommand(), t.explainCommand(), t.getCommand(), t.describeCommand()}
}

func (t *tool) kindsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "List the kinds that there are, and their controllers",
		Long: `Kinds lists what the registry has: of replicas that share the keys also how many slots there are, and how
many members, as the registry was told when they changed last. With -o wide it shows what the controllers own and watch,
and names the members. nagi top asks them how they are.`,
		Example: "  nagi kinds\n  nagi kinds -o wide\n  nagi kinds -o json",
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
			if more := found.More + found.MoreInvalid; more > 0 {
				t.Notef("nagi: %d more keys of bucket %s are not shown: look who writes there\n", more, registry.Bucket)
			}
			switch output {
			case "json":
				return t.JSON(append([]*registry.Entry{}, found.Entries...))
			case "yaml":
				return t.YAML(append([]*registry.Entry{}, found.Entries...))
			case "name":
				for _, e := range found.Entries {
					t.Printf("%s\n", printable.Text(registry.Key(e.Kind, e.APIVersion)))
				}
				return nil
			}
			return t.printKinds(found.Entries, output == "wide")
		},
	}
	oneOf(cmd, &output, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (t *tool) printKinds(all []*registry.Entry, wide bool) error {
	header := []string{"kind", "bucket", "namespaced", "controllers"}
	if wide {
		header = []string{"kind", "apiversion", "bucket", "records", "namespaced", "controllers", "owns", "watches"}
	}
	table := t.NewTable(header...)
	for _, e := range all {
		var by, owned, watched []string
		for _, c := range e.Controllers {
			sharing := kinds.Sharing(&c)
			if wide {
				sharing = kinds.Sharers(&c)
			}
			by = append(by, withSharing(strings.TrimSpace(c.Name+" "+c.Version), sharing))
			owned, watched = append(owned, inPlaces(c.Owns)...), append(watched, inPlaces(c.Watches)...)
		}
		namespaced := "no"
		if e.Namespaced {
			namespaced = "yes"
		}
		row := []string{e.Kind, e.Bucket, namespaced, strings.Join(by, ", ")}
		if wide {
			row = []string{e.Kind, e.APIVersion, e.Bucket, e.StatusBucket, namespaced, strings.Join(by, ", "),
				strings.Join(owned, ", "), strings.Join(watched, ", ")}
		}
		if err := table.Row(row...); err != nil {
			return err
		}
	}
	if table.Rows() == 0 {
		t.Notef("There are no kinds: a controller with the option registry.Publish publishes its own.\n")
	}
	return table.Flush()
}

func withSharing(name, sharing string) string {
	if sharing == "" {
		return name
	}
	return name + " (" + sharing + ")"
}

func inPlaces(all []registry.Resource) (names []string) {
	for _, r := range all {
		name := named(r)
		if r.In != registry.InNATS {
			name += " (" + r.In + ")"
		}
		names = append(names, name)
	}
	return names
}
