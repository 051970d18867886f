package cli

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
)

func (t *tool) reconcileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reconcile KIND/KEY...",
		Short: "Reconcile keys now",
		Long: "Reconciles keys now, whatever they wait for. One that failed for good needs unpark, and one that is\n" +
			"suspended resume.\n\n" + keysHelp,
		Example: "  nagi reconcile websites/shop/home\n  nagi reconcile websites cart home -n shop\n" +
			"  echo 'websites/shop/home' | nagi reconcile -  # from nagi get websites -o name, for instance\n" +
			"  nagi reconcile websites/shop/blog  # exit code 5: it is parked",
	}
	t.onController("reconcile", "is reconciled").flags(t, cmd)
	return cmd
}

func (t *tool) unparkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unpark KIND/KEY...",
		Short: "Try keys again whose reconcile failed for good",
		Long: "Tries keys again whose reconcile failed with an error that no retry can mend. Mend first what\n" +
			"the error names. A new revision of the document, and a change of what the key owns or watches,\n" +
			"wake it as well.\n\n" + keysHelp,
		Example: "  nagi unpark websites/shop/blog\n  nagi unpark websites/shop/home  # exit code 5: it is not parked",
	}
	t.onController("unpark", "is tried again").flags(t, cmd)
	return cmd
}

// onController is a command that has the controllers of each key do something.
func (t *tool) onController(verb, says string) *onKeys {
	return &onKeys{
		one: func(ctx context.Context, s *session, a target) acted {
			return byControllers(ctx, s, a, func(c ask.Controller) (bool, error) {
				var done service.Done
				err := c.ActOn(ctx, verb, a.namespace(), service.KeyRequest{Key: a.key}, &done)
				return done.Changed, err
			})
		},
		says: func(r acted) string { return says + " by controller " + printable.Text(r.Controller) },
	}
}

// resynced is what a resync of one controller did.
type resynced struct {
	Kind       string `json:"kind"`
	Controller string `json:"controller"`
	Count      int    `json:"count"`
}

func (t *tool) resyncCommand() *cobra.Command {
	var namespace, output string
	cmd := &cobra.Command{
		Use:   "resync KIND",
		Short: "Reconcile all keys of a kind, after all that waits",
		Long: `Reconciles all keys of a kind, or of a namespace of it, after all that waits. What is parked stays
so. Each of the kind's controllers does it.`,
		Example:           "  nagi resync websites\n  nagi resync websites -n shop -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			kind, all, err := s.controllersOf(cmd.Context(), args)
			if err != nil {
				return err
			}
			var done []resynced
			for _, c := range all {
				var answer service.Resynced
				if err := c.ActOn(cmd.Context(), "resync", namespace, nil, &answer); err != nil {
					return err
				}
				done = append(done, resynced{kind.Name(), c.Name, answer.Count})
				if output == "text" {
					t.Printf("%s: %s reconciled by controller %s\n", printable.Text(kind.Name()), keysAre(answer.Count),
						printable.Text(c.Name))
				}
			}
			return t.as(output, done)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the keys of this namespace alone")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

func keysAre(n int) string {
	if n == 1 {
		return "1 key is"
	}
	return fmt.Sprintf("%d keys are", n)
}
