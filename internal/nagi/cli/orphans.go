package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
)

// orphaned is what a controller lists, of all pages. A list of a kind alone is held.
type orphaned struct {
	Kind       string `json:"kind"`
	Controller string `json:"controller"`
	service.Orphans
	Says string `json:"says,omitempty"`
}

// orphanFlags choose some of the orphans.
type orphanFlags struct{ owner, source string }

func (f *orphanFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "those that name this owner, by its key")
	cmd.Flags().StringVar(&f.source, "source", "", "those in this source, as the list names it")
}

func (t *tool) orphansCommand() *cobra.Command {
	var f orphanFlags
	var output string
	cmd := &cobra.Command{
		Use:   "orphans [KIND]",
		Short: "List what is left although its owner does not exist",
		Long: `Lists what the last sweep of each controller found and left, since its owner does not exist, with
the owner that it names, and why it stays:

  neverWas       its owner has no document, no record and no marker of a delete: put the document of that owner back
  held           the brake holds the delete of its owner: nagi brake
  unanswered     the leader was not asked yet: look again
  unproven       it has no valid proof of its owner
  contradicting  its labels name another owner than its annotations
  hashed         it has only a hash of its owner's key, and no owner has that

nagi orphans delete deletes those that are deletable, nagi orphans adopt gives those that are
adoptable another owner.`,
		Example:           "  nagi orphans\n  nagi orphans websites --owner shop/gone\n  nagi orphans websites -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			keepers, err := s.keepers(cmd.Context(), args)
			if err != nil {
				return err
			}
			return t.showOrphans(cmd.Context(), keepers, f, output)
		},
	}
	f.register(cmd)
	oneOf(cmd, &output, "table", "json", "yaml")
	cmd.AddCommand(t.orphansDeleteCommand(), t.orphansAdoptCommand())
	return cmd
}

func (t *tool) showOrphans(ctx context.Context, keepers []keeper, f orphanFlags, output string) error {
	var lists []orphaned
	var failed error
	for _, k := range keepers {
		list := orphaned{Kind: k.kind.Name(), Controller: k.Name}
		var err error
		list.Orphans, err = k.Orphans(ctx, f.owner, f.source)
		if err != nil {
			list.Says = err.Error()
			refused, ok := errors.AsType[*ask.Refused](err)
			if none := ok && refused.Body.Code == http.StatusNotImplemented; !none {
				t.Notef("nagi: %s\n", printable.Message(list.Says))
				if failed == nil {
					failed = &coded{code: codeOf(ctx, err), err: err, silent: true}
				}
			}
		}
		lists = append(lists, list)
	}
	if output != "table" {
		if err := t.as(output, lists); err != nil {
			return err
		}
		return failed
	}
	table := t.NewTable("controller", "source", "object", "owner", "why", "deletable", "adoptable")
	for _, list := range lists {
		for _, o := range list.Orphans.Orphans {
			err := table.Row(list.Controller, o.Source, o.Object, o.Owner, string(o.Why), yes(o.Deletable),
				yes(o.Adoptable))
			if err != nil {
				return err
			}
		}
	}
	if table.Rows() == 0 && failed == nil {
		t.Notef("There are no orphans%s.\n", asOf(lists))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return failed
}

// asOf says of what moment lists are.
func asOf(lists []orphaned) string {
	var oldest time.Time
	for _, l := range lists {
		if l.Says == "" && l.AsOf.IsZero() {
			return ", as far as is known: a sweep of " + printable.Text(l.Controller) + " is not over yet"
		}
		if oldest.IsZero() || l.AsOf.Before(oldest) && !l.AsOf.IsZero() {
			oldest = l.AsOf
		}
	}
	if oldest.IsZero() {
		return ""
	}
	return fmt.Sprintf(", as of %s ago", out.Age(time.Since(oldest)))
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
