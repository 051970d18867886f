package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (t *tool) labelCommand() *cobra.Command {
	return t.metadataCommand("labels", &cobra.Command{
		Use:   "label KIND/KEY NAME=VALUE… NAME-…",
		Short: "Set and remove labels of a document",
		Example: `  nagi label websites/shop/home owner=ann
  nagi label websites/shop/home tier=tin  # exit code 5
  nagi label websites/shop/home tier=tin --overwrite
  nagi label websites/shop/home tier-`,
	})
}

func (t *tool) annotateCommand() *cobra.Command {
	return t.metadataCommand("annotations", &cobra.Command{
		Use:   "annotate KIND/KEY NAME=VALUE… NAME-…",
		Short: "Set and remove annotations of a document",
		Example: `  nagi annotate websites/shop/home note='moved on Monday'
  nagi annotate websites/lab/old nagi/suspend-`,
	})
}

// metadataCommand completes a command about labels or annotations.
func (t *tool) metadataCommand(member string, cmd *cobra.Command) *cobra.Command {
	var namespace, output string
	var overwrite, dryRun bool
	cmd.Args = cobra.MinimumNArgs(2)
	cmd.ValidArgsFunction = t.completeTargets
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := t.connect()
		if err != nil {
			return err
		}
		var key []string
		for len(args) > 0 && !strings.Contains(args[0], "=") && !strings.HasSuffix(args[0], "-") && len(key) < 2 {
			key, args = append(key, args[0]), args[1:]
		}
		changes, err := changesOf(member, args)
		if err != nil {
			return usage(err)
		}
		a, err := s.keyed(cmd.Context(), key, namespace)
		if err != nil {
			return err
		}
		return s.changeOne(cmd.Context(), a, output, dryRun, func(now *current) (map[string]any, error) {
			had := object(object(now.object["metadata"])[member])
			for name, value := range changes {
				if old, has := had[name]; value != nil && has && old != value && !overwrite {
					return nil, withCode(CodeRefused, fmt.Errorf("%s has %s already, with another value: --overwrite "+
						"replaces it", a.String(), printable.Quote(name)))
				}
			}
			return threeway.Patch(now.object, map[string]any{"metadata": map[string]any{member: changes}}), nil
		})
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the document")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace a value that is there")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and write nothing")
	oneOf(cmd, &output, "text", "name", "json", "yaml")
	return cmd
}

// changesOf reads NAME=VALUE and NAME-, as a merge patch.
func changesOf(member string, args []string) (map[string]any, error) {
	if len(args) == 0 {
		return nil, errors.New("say what to change: NAME=VALUE, or NAME- to remove one")
	}
	changes := map[string]any{}
	for _, arg := range args {
		name, value, sets := strings.Cut(arg, "=")
		if !sets {
			var removes bool
			if name, removes = strings.CutSuffix(arg, "-"); !removes {
				return nil, fmt.Errorf("%s is neither NAME=VALUE, nor NAME- to remove one", printable.Quote(arg))
			}
		}
		wrong := validation.IsQualifiedName(name)
		if sets && member == "labels" {
			wrong = append(wrong, validation.IsValidLabelValue(value)...)
		}
		if len(wrong) > 0 {
			return nil, fmt.Errorf("%s: %s", printable.Quote(arg), strings.Join(wrong, "; "))
		}
		if _, twice := changes[name]; twice {
			return nil, fmt.Errorf("%s is named twice", printable.Quote(name))
		}
		if changes[name] = nil; sets {
			changes[name] = value
		}
	}
	return changes, nil
}

// changeOne changes one document that is there, and prints what became of it; a dry run prints the difference.
func (s *session) changeOne(
	ctx context.Context, a target, output string, dryRun bool, to func(now *current) (map[string]any, error),
) error {
	c, err := s.writer(ctx, a.kind)
	if err != nil {
		return err
	}
	says := "unchanged"
	now, is, err := s.change(context.WithoutCancel(ctx), c, a, func(now *current) (map[string]any, error) {
		if !now.exists() {
			return nil, nothingThere(a)
		}
		if now.object == nil {
			return nil, usage(fmt.Errorf("%s is no JSON object at revision %d: apply replaces it", a.String(),
				now.revision))
		}
		wanted, err := to(now)
		says = "unchanged"
		if err != nil || len(threeway.Diff(now.object, wanted)) == 0 {
			return nil, err
		}
		if says = "changed"; dryRun {
			s.t.showDiff(s.t.besides(output), a, now.object, wanted)
			return nil, nil
		}
		return wanted, nil
	})
	if err != nil {
		return err
	}
	return s.tellOne(ctx, a, output, result{Result: says, Revision: now.revision, DryRun: dryRun}, is != nil)
}

// tellOne prints what became of a document, as -o says; of one that was written it reads the revision.
func (s *session) tellOne(ctx context.Context, a target, output string, one result, written bool) error {
	one.Kind, one.Bucket, one.Key = a.kind.Name(), a.kind.Bucket, a.key
	says := one.Result
	switch output {
	case "json", "yaml":
		if written {
			c, err := s.writer(ctx, a.kind)
			if err != nil {
				return err
			}
			now, err := s.read(ctx, c, a.key)
			if err != nil {
				return err
			}
			one.Revision = now.revision
		}
		return s.printAs(output, one)
	case "name":
		s.t.Printf("%s\n", a.String())
	default:
		if one.DryRun {
			says += " (dry run)"
		}
		s.t.Printf("%s %s\n", a.String(), says)
	}
	return nil
}
