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

// braked is the brake of one controller.
type braked struct {
	Kind       string         `json:"kind"`
	Controller string         `json:"controller"`
	Brake      *service.Brake `json:"brake,omitempty"`
	// Keys are the primaries whose delete is held, and the missing owners of what is swept; Pruned those that own what
	// they do not want any more. They are there if one kind was asked about.
	Keys   []string `json:"keys,omitempty"`
	Pruned []string `json:"pruned,omitempty"`
	// List names what is held: a release of this list lets nothing else go, as many as others may be.
	List string `json:"list,omitempty"`
	// Says is what to know besides: that no controller answers, or that it has no brake.
	Says string `json:"says,omitempty"`
	// Offline says that the brake is as the status bucket has it, since no controller answers.
	Offline bool `json:"offline,omitempty"`
	keeper  keeper
	err     error
}

func (t *tool) brakeCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "brake [KIND]",
		Short: "Show which deletes are held, by whom and why",
		Long: `Shows the brake of each controller. A brake holds deletes that nobody was seen to order: nothing
is lost while it is engaged. With KIND it lists the keys: those whose delete is held, the missing
owners of what they left, and those that own what they do not want any more (pruned). Where no
controller answers, it is told what its status bucket has.

The commands to go on with are printed, the safe one first. The exit code is 4 while a brake is
engaged.`,
		Example:           "  nagi brake\n  nagi brake websites\n  nagi brake -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			all, err := s.keepers(cmd.Context(), args)
			if err != nil {
				return err
			}
			return t.showBrakes(cmd.Context(), s, all, len(args) > 0 || t.plain.Bucket != "", output)
		},
	}
	oneOf(cmd, &output, "table", "json", "yaml")
	cmd.AddCommand(t.brakeReleaseCommand())
	return cmd
}

func (t *tool) showBrakes(ctx context.Context, s *session, keepers []keeper, keys bool, output string) error {
	var all []*braked
	var failed error
	engaged := false
	for _, k := range keepers {
		b := s.brakeOf(ctx, k, keys)
		all = append(all, b)
		if b.err != nil && failed == nil {
			failed = &coded{code: codeOf(ctx, b.err), err: b.err, silent: true}
		}
		engaged = engaged || b.Brake != nil && b.Brake.Engaged
	}
	if output != "table" {
		if err := t.as(output, all); err != nil {
			return err
		}
	} else if err := t.brakeTable(s, all, keys); err != nil {
		return err
	}
	if engaged {
		return notSo()
	}
	return failed
}

// brakeOf asks a controller for its brake, and reads its status bucket if none answers.
func (s *session) brakeOf(ctx context.Context, k keeper, keys bool) *braked {
	b := &braked{Kind: k.kind.Name(), Controller: k.Name, keeper: k}
	if keys {
		list, err := k.Brake(ctx)
		if b.err = err; err == nil {
			b.Brake, b.List, b.Keys, b.Pruned = &list.Brake, list.List, list.Keys, list.Pruned
		}
	} else if state, list, err := k.BrakeState(ctx); err == nil {
		b.Brake, b.List = &state, list
	} else {
		b.err = err
	}
	if b.err == nil {
		return b
	}
	b.Says = b.err.Error()
	if refused, ok := errors.AsType[*ask.Refused](b.err); ok && refused.Body.Code == http.StatusNotImplemented {
		b.err = nil // it has no brake
		return b
	}
	if _, answers := errors.AsType[*ask.Changing](b.err); answers {
		return b
	}
	if state, err := s.keptBrake(ctx, k); err == nil {
		b.Brake, b.Offline = state, true
	}
	return b
}

func (t *tool) brakeTable(s *session, all []*braked, keys bool) error {
	now := time.Now()
	table := t.NewTable("controller", "kind", "brake", "held", "swept", "pruned", "age", "why")
	for _, b := range all {
		cells := []out.Cell{{Text: b.Controller}, {Text: b.Kind}}
		switch {
		case b.Brake == nil:
			none := out.Cell{}
			cells = append(cells, out.Cell{Text: "unknown", Tone: out.Warn}, none, none, none, none,
				out.Cell{Text: b.Says})
			if b.err == nil {
				cells[2].Text, cells[2].Tone = "none", out.Plain
			}
		case !b.Brake.Engaged:
			cells = append(cells, out.Cell{Text: "not engaged"})
		default:
			cells = append(cells, out.Cell{Text: "engaged", Tone: out.Bad}, number(b.Brake.Held), number(b.Brake.Swept),
				number(b.Brake.Pruned), out.Cell{Text: age(b.Brake.Since, now)}, out.Cell{Text: b.Brake.Reason})
		}
		if err := table.Cells(cells...); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, b := range all {
		if b.Offline {
			t.Notef("nagi: the brake of %s is told as its status bucket has it: %s\n", printable.Quote(b.Controller),
				printable.Message(b.Says))
		}
		if b.Brake == nil || !b.Brake.Engaged {
			continue
		}
		if err := t.heldTable(b, keys); err != nil {
			return err
		}
		t.brakeCommands(s, b)
	}
	return nil
}

// heldTable lists what a brake holds.
func (t *tool) heldTable(b *braked, keys bool) error {
	if !keys || len(b.Keys)+len(b.Pruned) == 0 {
		return nil
	}
	t.Printf("\n")
	table := t.NewTable("key", "a release")
	for _, key := range b.Keys {
		if err := table.Row(key, "deletes what it owned"); err != nil {
			return err
		}
	}
	for _, key := range b.Pruned {
		if err := table.Row(key, "deletes what it does not want any more"); err != nil {
			return err
		}
	}
	return table.Flush()
}

// brakeCommands are what to type next, the safe one first.
func (t *tool) brakeCommands(s *session, b *braked) {
	kind := b.keeper.typed(s)
	t.Printf("\nWhat to do about %s, in this order:\n", printable.Text(b.Controller))
	if b.Brake.Pruned > 0 {
		t.Printf("  # pruned: a release of the controller does not want what its primaries own: roll it back first\n")
	}
	t.Printf("  nagi brake %s    # which keys\n", kind)
	t.Printf("  nagi restore %s  # puts vanished documents back; deletes nothing\n", kind)
	release := fmt.Sprintf("nagi brake release %s --expect %d", kind, b.Brake.Count)
	if b.List != "" {
		release += " --list " + printable.Typed(b.List, "<list>")
	}
	if b.Offline {
		release += " --offline"
	}
	t.Printf("  %s  # last: deletes for good what they own\n", release)
}

func number(n int) out.Cell { return out.Cell{Text: fmt.Sprint(n)} }

func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return out.Age(now.Sub(since))
}
