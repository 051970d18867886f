package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
)

// vanished are the documents that are missing, and what came of a restore.
type vanished struct {
	Kind       string             `json:"kind"`
	Controller string             `json:"controller"`
	Engagement string             `json:"engagement,omitempty"`
	Restorable int                `json:"restorable"`
	Restored   int                `json:"restored"`
	Vanished   []service.Vanished `json:"vanished"`
}

func (t *tool) restoreCommand() *cobra.Command {
	var expect expected
	var from, output string
	var list, stopped bool
	cmd := &cobra.Command{
		Use:   "restore {KIND | --from DIR}",
		Short: "Put vanished documents back from their records, or both buckets from a backup",
		Long: `With KIND: puts back the documents that are missing and whose deletes the brake holds, from their
records. It deletes nothing, and writes over nothing. They are listed first, with why one cannot
be restored; the number of those that can be has to be named, by --expect or typed at a terminal.
--list only lists.

With --from DIR: makes the streams of documents and records again from a backup of nagi backup, by
the procedure of docs/restoring.md. It is refused while a controller answers or holds a lease, and
while one of the streams exists. All checksums are compared before anything is made. At last the
brake is put on, so that no controller deletes because of what is missing in the backup.`,
		Example: "  nagi restore websites --list\n" +
			"  nagi restore websites --expect 11  # exit code 5: nothing is missing\n" +
			"  nagi restore --from backup-of-monday  # exit code 3: there is no such backup here",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" && len(args) > 0 {
				return usage(errors.New("KIND puts vanished documents back, and --from DIR both buckets of a backup: " +
					"give one of them"))
			}
			s, err := t.connect()
			if err != nil {
				return err
			}
			if from != "" {
				return t.restoreBackup(cmd.Context(), s, from, stopped, output)
			}
			k, err := s.keeper(cmd.Context(), args)
			if err != nil {
				return err
			}
			return t.restoreVanished(cmd.Context(), s, k, expect, list, output)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "directory of a backup: restores both buckets, instead of KIND")
	cmd.Flags().BoolVar(&stopped, "stopped", false, "with --from: you know that no replica of the controllers runs")
	cmd.Flags().BoolVar(&list, "list", false, "list what vanished, and do nothing")
	expect.flag(cmd, "documents that can be restored")
	oneOf(cmd, &output, "table", "json", "yaml")
	return cmd
}

func (t *tool) restoreVanished(
	ctx context.Context, s *session, k keeper, e expected, list bool, output string,
) error {
	began, listed := time.Now(), 0
	found, err := k.Vanished(ctx, func(page *service.BrakeVanished) {
		if listed += len(page.Vanished); time.Since(began) > progressAfter {
			t.Notef("nagi: %d of %d are listed\n", listed, page.Count+page.NotRestorable)
		}
	})
	if err != nil {
		return err
	}
	v := &vanished{Kind: k.kind.Name(), Controller: k.Name, Engagement: found.Engagement, Restorable: found.Count,
		Vanished: append([]service.Vanished{}, found.Vanished...)}
	if output == "table" {
		if err := t.vanishedTable(v); err != nil {
			return err
		}
	}
	if list {
		return t.as(output, v)
	}
	if v.Restorable == 0 {
		return withCode(CodeRefused, fmt.Errorf("there is nothing to restore: %s", nothingRestorable(v)))
	}
	err = t.confirmed(ctx, e, v.Restorable, "documents that can be restored", "nagi restore "+k.typed(s))
	if err != nil {
		return err
	}
	var done service.BrakeRestored
	err = k.Patient(restoreTakes).Do(ctx, ask.Act, "brake-restore", "",
		service.BrakeRequest{Engagement: v.Engagement, Count: &v.Restorable}, &done)
	if err != nil {
		return err
	}
	v.Restored = done.Count
	if output != "table" {
		return t.as(output, v)
	}
	t.Printf("%d documents are restored\n", done.Count)
	if left := len(v.Vanished) - v.Restorable; left > 0 {
		t.Printf("%d cannot be restored, and stay held by the brake: put them back by other means, or release them "+
			"(nagi brake %s)\n", left, k.typed(s))
	}
	return nil
}

// restoreTakes is how long a restore may take until it is answered.
const restoreTakes = 10 * time.Minute

func nothingRestorable(v *vanished) string {
	if len(v.Vanished) == 0 {
		return "the brake of controller " + printable.Quote(v.Controller) + " holds no document that vanished"
	}
	return fmt.Sprintf("none of the %d that vanished can be restored, as the list says", len(v.Vanished))
}

func (t *tool) vanishedTable(v *vanished) error {
	now := time.Now()
	table := t.NewTable("key", "revision", "held for", "restorable", "why not")
	for _, one := range v.Vanished {
		can, why := out.Cell{Text: "yes", Tone: out.Good}, out.Cell{Text: one.NotRestorable}
		if one.NotRestorable != "" {
			can = out.Cell{Text: "no", Tone: out.Bad}
		}
		revision := ""
		if one.Revision > 0 {
			revision = fmt.Sprint(one.Revision)
		}
		since := out.Cell{Text: age(one.Since, now)}
		if err := table.Cells(out.Cell{Text: one.Key}, out.Cell{Text: revision}, since, can, why); err != nil {
			return err
		}
	}
	if table.Rows() == 0 {
		t.Notef("No document vanished.\n")
	}
	return table.Flush()
}
