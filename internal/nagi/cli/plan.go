package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
)

// planTakes is how long a plan may take: somewhat longer than controllers allow.
const planTakes = 35 * time.Second

// planOf is what a controller would do for a key.
type planOf struct {
	Kind       string `json:"kind"`
	Controller string `json:"controller"`
	controller.Plan
}

func (t *tool) planCommand() *cobra.Command {
	var namespace, output string
	cmd := &cobra.Command{
		Use:   "plan KIND/KEY...",
		Short: "Show what a reconcile would create, change and delete",
		Long: `Shows what a reconcile of a key would create, change and delete, in NATS, in Kubernetes and behind
APIs, and what the runtime would delete after it. Nothing is written. Suspend a document, change it, and look at
the plan before you resume it; for one that is gone the plan says what goes with it.

The controller runs its reconciler for it, in a dry run, if it was made with controller.WithPlan; others refuse. The
exit code is 4 if something would change, and 1 if the reconcile would fail.

` + keysHelp,
		Example: "  nagi plan websites/shop/home\n  nagi plan websites home -n shop -o json\n" +
			"  nagi plan websites/shop/none  # exit code 3",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: t.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			all, err := s.keysFrom(cmd.Context(), args, namespace)
			if err != nil {
				return err
			}
			return s.plan(cmd.Context(), all, output)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the keys")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

func (s *session) plan(ctx context.Context, keys []target, output string) error {
	plans := []planOf{}
	var failed error
	changes := false
	for _, a := range keys {
		of, err := s.plansOf(ctx, a)
		if err != nil && failed == nil {
			failed = &coded{code: codeOf(ctx, err), err: err, silent: true}
		}
		if err != nil {
			s.t.Notef("nagi: %s: %s\n", a, printable.Message(err.Error()))
		}
		for i := range of {
			changes = changes || len(of[i].Changes)+of[i].MoreChanges > 0
			if of[i].Error != "" && failed == nil {
				failed = &coded{code: CodeFailed, err: fmt.Errorf("%s", of[i].Error), silent: true}
			}
			if output == "text" {
				of[i].print(&s.t.Streams, a)
			}
		}
		plans = append(plans, of...)
	}
	if err := s.t.as(output, plans); err != nil {
		return err
	}
	if failed == nil && changes {
		return notSo()
	}
	return failed
}

// plansOf asks each controller of the kind. The error is that of a controller where none has made a plan.
func (s *session) plansOf(ctx context.Context, a target) (plans []planOf, err error) {
	all, err := s.controllers(a.kind)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, c := range all {
		p := planOf{Kind: a.kind.Name(), Controller: c.Name}
		about := service.KeyRequest{Key: a.key}
		if err := c.Patient(planTakes).ActOn(ctx, "plan", a.namespace(), about, &p.Plan); err != nil {
			errs = append(errs, err)
			continue
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return nil, mostTelling(errs)
	}
	return plans, nil
}

// signs are how plans show actions.
var signs = map[dryrun.Action]struct {
	sign string
	tone out.Tone
}{
	dryrun.ActionCreate: {"+", out.Good}, dryrun.ActionUpdate: {"~", out.Plain}, dryrun.ActionDelete: {"-", out.Bad},
}

func (p *planOf) print(to *out.Streams, a target) {
	counts := map[dryrun.Action]int{}
	to.Printf("%s, by controller %s:\n", a, printable.Text(p.Controller))
	for _, c := range p.Changes {
		counts[c.Action]++
		printChange(to, c)
	}
	if p.MoreChanges > 0 {
		to.Printf("  and %d changes more, for which the answer has no room\n", p.MoreChanges)
	}
	switch n := len(p.Changes) + p.MoreChanges; {
	case p.Error != "":
		to.Printf("  %s %s\n", to.Paint(out.Bad, "The reconcile would fail:"), printable.Message(p.Error))
	case n == 0:
		to.Printf("  Nothing would change.\n")
	case p.MoreChanges == 0:
		to.Printf("  %d to create, %d to update, %d to delete. Nothing was written.\n",
			counts[dryrun.ActionCreate], counts[dryrun.ActionUpdate], counts[dryrun.ActionDelete])
	}
	if p.Waits != "" {
		to.Printf("  It would wait for %s.\n", printable.Message(p.Waits))
	}
	for _, note := range p.Notes {
		to.Printf("  Note: %s\n", printable.Message(note))
	}
}

func printChange(to *out.Streams, c controller.PlanChange) {
	as := signs[c.Action]
	what := printable.Text(c.Kind)
	if c.Status {
		what = "status of " + what
	}
	line := fmt.Sprintf("%s %s %s %s", as.sign, c.Action, what, printable.Text(c.Key))
	if c.Why != "" {
		line += " (" + printable.Message(c.Why) + ")"
	}
	to.Printf("  %s\n", to.Paint(as.tone, strings.TrimRight(line, " ")))
	marks := 0
	for _, f := range c.Fields {
		if isMark(f.Path) {
			marks++
			continue
		}
		path, from, value := printable.Message(f.Path), printable.Message(f.From), printable.Message(f.To)
		switch {
		case f.From == "":
			to.Printf("      %s: %s\n", path, value)
		case f.To == "":
			to.Printf("      %s: %s → gone\n", path, from)
		default:
			to.Printf("      %s: %s → %s\n", path, from, value)
		}
	}
	if more := c.More + marks; more > 0 {
		say := fmt.Sprintf("and %d more, %d of them marks of the runtime (-o json)", more, marks)
		to.Printf("      %s\n", to.Paint(out.Faint, say))
	}
}

// isMark reports whether a field is a label or an annotation that the runtime sets.
func isMark(path string) bool {
	for _, in := range []string{"metadata.labels.", "metadata.annotations."} {
		if name, ok := strings.CutPrefix(path, in); ok {
			return strings.HasPrefix(name, "nagi/") || strings.HasPrefix(name, "kumori/owner")
		}
	}
	return strings.HasPrefix(path, `metadata.annotations["nagi/`)
}
