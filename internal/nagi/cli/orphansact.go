package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
)

// orphansDone is what came of deleting or adopting orphans, over all requests that it took.
type orphansDone struct {
	Kind       string `json:"kind"`
	Controller string `json:"controller"`
	Deleted    int    `json:"deleted,omitempty"`
	Adopted    int    `json:"adopted,omitempty"`
	Skipped    int    `json:"skipped,omitempty"`
	Left       int    `json:"left"`
}

// orphansAct is an act on orphans.
type orphansAct struct {
	orphanFlags
	expected
	list, newOwner, output string
}

func (t *tool) orphansDeleteCommand() *cobra.Command {
	var f orphansAct
	cmd := &cobra.Command{
		Use:   "delete KIND",
		Short: "Delete orphans whose owners never were",
		Long: `Deletes the orphans that are deletable, of one owner or source if they are named, and nothing
else. They are listed first, and their number has to be named, by --expect or typed at a terminal.
What was written since the list was made stays.`,
		Example: "  nagi orphans delete websites --expect 3  # exit code 5: there are none\n" +
			"  nagi orphans delete websites --owner shop/young --expect 1  # exit code 5",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.onOrphans(cmd.Context(), args, f, f.remove)
		},
	}
	f.flags(cmd, "orphans that are deletable")
	return cmd
}

func (t *tool) orphansAdoptCommand() *cobra.Command {
	var f orphansAct
	cmd := &cobra.Command{
		Use:   "adopt KIND --owner OLD --new-owner NEW",
		Short: "Give the orphans of a missing owner another owner",
		Long: `Gives the orphans of a missing owner to a primary that exists. From then on they are its own: they
go with it, and at once if its reconciler prunes what it does not want. Look first what it makes
of them. They are listed first, and their number has to be named, by --expect or typed at a
terminal.`,
		Example: "  nagi orphans adopt websites --owner shop/former --new-owner shop/home --expect 1  # exit code 5: " +
			"there are none",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.owner == "" || f.newOwner == "" {
				return usage(errors.New("--owner and --new-owner are needed: whose they were, and whose they will be"))
			}
			return t.onOrphans(cmd.Context(), args, f, f.adopt)
		},
	}
	f.flags(cmd, "orphans that are adoptable")
	cmd.Flags().StringVar(&f.newOwner, "new-owner", "", "key of the primary that is to own them")
	return cmd
}

func (f *orphansAct) flags(cmd *cobra.Command, what string) {
	f.register(cmd)
	f.flag(cmd, what)
	cmd.Flags().StringVar(&f.list, "list", "", "the list that you have read (nagi orphans -o json)")
	oneOf(cmd, &f.output, "text", "json", "yaml")
}

// orphansTake is how long one request may take: the controller works four seconds at most.
const orphansTake = 10 * time.Second

// mostIdle is how many requests in a row may do nothing.
const mostIdle = 3

// onOrphans lists, asks, and then acts until none is left of those that were confirmed.
func (t *tool) onOrphans(
	ctx context.Context, args []string, f orphansAct,
	act func(ctx context.Context, c ask.Controller, list string, n int, sum *orphansDone) (next string, err error),
) error {
	s, err := t.connect()
	if err != nil {
		return err
	}
	k, err := s.keeper(ctx, args)
	if err != nil {
		return err
	}
	all, err := k.Orphans(ctx, f.owner, f.source)
	if err != nil {
		return err
	}
	n, what, how := all.Count, "orphans that are deletable", "delete"
	if f.newOwner != "" {
		n, what, how = all.Adoptable, "orphans that are adoptable", "adopt"
	}
	if n == 0 {
		return withCode(CodeRefused, fmt.Errorf("there are no %s: nagi orphans %s lists what there is", what,
			k.typed(s)))
	}
	if f.list != "" && f.list != all.List {
		return withCode(CodeRefused, fmt.Errorf("nothing is done: the list is %s now, not %s: look at it again",
			all.List, printable.Quote(f.list)))
	}
	t.noteOrphans(all, f)
	command := fmt.Sprintf("nagi orphans %s %s%s", how, k.typed(s), f.typed())
	if err := t.confirmed(ctx, f.expected, n, what, command); err != nil {
		return err
	}
	sum := &orphansDone{Kind: k.kind.Name(), Controller: k.Name, Left: n}
	idle := 0
	for list := all.List; sum.Left > 0; {
		left := sum.Left
		if list, err = act(ctx, k.Patient(orphansTake), list, left, sum); err != nil {
			return fmt.Errorf("%w (%s)", err, sum)
		}
		if sum.Left > left {
			return withCode(CodeRefused, fmt.Errorf("there are more than were confirmed: look at them again (%s)", sum))
		}
		if idle++; sum.Left < left {
			idle = 0
		}
		if idle == mostIdle {
			return fmt.Errorf("%d requests in a row did nothing: ask again later (%s)", idle, sum)
		}
		if sum.Left > 0 {
			t.Notef("nagi: %s\n", sum)
		}
	}
	if f.output != "text" {
		return t.as(f.output, sum)
	}
	t.Printf("%s\n", sum)
	return nil
}

func (d *orphansDone) String() string {
	if d.Adopted+d.Skipped > 0 {
		return fmt.Sprintf("%d orphans are adopted, %d skipped, %d left", d.Adopted, d.Skipped, d.Left)
	}
	return fmt.Sprintf("%d orphans are deleted, %d left", d.Deleted, d.Left)
}

func (f *orphansAct) typed() (words string) {
	for _, flag := range []struct{ name, value string }{
		{"owner", f.owner}, {"new-owner", f.newOwner},
	} {
		if flag.value != "" {
			words += " --" + flag.name + " " + printable.Typed(flag.value, "<"+flag.name+">")
		}
	}
	if f.source != "" {
		words += " --source " + printable.Quote(f.source)
	}
	return words
}

// noteOrphans lists those that are about to go, or to be adopted.
func (t *tool) noteOrphans(all service.Orphans, f orphansAct) {
	shown := 0
	t.Notef("These are %s:\n", map[bool]string{true: "deleted for good", false: "given to " +
		printable.Text(f.newOwner)}[f.newOwner == ""])
	for _, o := range all.Orphans {
		if wanted := o.Deletable && f.newOwner == "" || o.Adoptable && f.newOwner != ""; !wanted {
			continue
		}
		if shown++; shown <= mostShown {
			t.Notef("  %s: %s of %s\n", printable.Text(o.Source), printable.Text(o.Object), printable.Text(o.Owner))
		}
	}
	if shown > mostShown {
		t.Notef("  and %d more\n", shown-mostShown)
	}
}

func (f *orphansAct) remove(
	ctx context.Context, c ask.Controller, list string, n int, sum *orphansDone,
) (string, error) {
	var done service.OrphansDeleted
	err := c.ActOn(ctx, "orphans-delete", "",
		service.OrphansDeleteRequest{List: list, Expect: &n, Owner: f.owner, Source: f.source}, &done)
	sum.Deleted += done.Deleted
	if err == nil {
		sum.Left = done.Left
	}
	return done.List, err
}

func (f *orphansAct) adopt(
	ctx context.Context, c ask.Controller, list string, n int, sum *orphansDone,
) (string, error) {
	var done service.OrphansAdopted
	err := c.ActOn(ctx, "orphans-adopt", "", service.OrphansAdoptRequest{
		List: list, Expect: &n, Owner: f.owner, NewOwner: f.newOwner, Source: f.source,
	}, &done)
	sum.Adopted, sum.Skipped = sum.Adopted+done.Adopted, sum.Skipped+done.Skipped
	if err == nil {
		sum.Left = done.Left
	}
	return done.List, err
}
