package cli

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// patching makes of a document what a patch says.
type patching struct{ text, file, as string }

func (t *tool) patchCommand() *cobra.Command {
	var p patching
	var namespace, output string
	var dryRun bool
	var how checking
	cmd := &cobra.Command{
		Use:   "patch KIND/KEY -p PATCH",
		Short: "Change a document by a patch",
		Long: `Change a document by a JSON merge patch (RFC 7386), which may be YAML, or with --type=json by a JSON
patch (RFC 6902).

If another writer comes in between, the patch is applied to what that one wrote. The result is checked against the
schema of the kind.`,
		Example: `  nagi patch websites/shop/home -p '{"spec":{"pages":3}}'
  nagi patch websites/shop/home -p '{"spec":{"theme":null}}' --dry-run
  nagi patch websites/shop/home --type=json -p '[{"op":"replace","path":"/spec/pages","value":1}]'
  nagi patch websites/shop/home -p '{"spec":{"pages":-1}}'  # exit code 2`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: t.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) error {
			apply, err := p.read()
			if err != nil {
				return usage(err)
			}
			s, a, err := t.keyed(cmd.Context(), args, namespace)
			if err != nil {
				return err
			}
			return s.changeOne(cmd.Context(), a, output, dryRun, func(now *current) (map[string]any, error) {
				wanted, err := apply(now.object)
				if err != nil {
					return nil, usage(err)
				}
				if err := keepsPlace(now.object, wanted); err != nil {
					return nil, usage(err)
				}
				if err := unhide(a.kind, wanted, now); err != nil || how.noValidate {
					return wanted, err
				}
				return wanted, t.checked(a, now.object, wanted, how.strict)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.text, "patch", "p", "", "the patch")
	flags.StringVar(&p.file, "patch-file", "", "a file with the patch")
	flags.StringVar(&p.as, "type", "merge", "merge (RFC 7386) or json (RFC 6902)")
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace of the document")
	flags.BoolVar(&dryRun, "dry-run", false, "show what would change, and write nothing")
	how.register(cmd)
	oneOf(cmd, &output, "text", "name", "json", "yaml")
	cmd.MarkFlagsMutuallyExclusive("patch", "patch-file")
	cmd.MarkFlagsOneRequired("patch", "patch-file")
	return cmd
}

// read returns what applies the patch.
func (p *patching) read() (func(document map[string]any) (map[string]any, error), error) {
	text := []byte(p.text)
	if p.file != "" {
		var err error
		if text, err = os.ReadFile(p.file); err != nil {
			return nil, err
		}
	}
	switch p.as {
	case "merge":
		read, err := manifests.Parse("the patch", text)
		if err != nil {
			return nil, err
		}
		if len(read) != 1 {
			return nil, errors.New("a merge patch is one JSON object")
		}
		patch := read[0].Document
		if patch["status"] != nil {
			return nil, errors.New("the patch has a status, which is no part of a document")
		}
		return func(document map[string]any) (map[string]any, error) {
			return threeway.Patch(document, patch), nil
		}, nil
	case "json":
		patch, err := jsonpatch.DecodePatch(text)
		if err != nil {
			return nil, fmt.Errorf("a JSON patch is a list of operations: %w", err)
		}
		return func(document map[string]any) (map[string]any, error) {
			was, err := manifests.JSON(document)
			if err != nil {
				return nil, err
			}
			is, err := patch.Apply(was)
			if err != nil {
				return nil, fmt.Errorf("the patch does not apply: %w", err)
			}
			return manifests.FromJSON(is)
		}, nil
	}
	return nil, fmt.Errorf("--type is %s: it is merge or json", printable.Quote(p.as))
}

// keepsPlace refuses what would make a document contradict its key, or its kind.
func keepsPlace(was, is map[string]any) error {
	for _, path := range [][]string{{"kind"}, {"apiVersion"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		before, after := was, is
		if len(path) == 2 {
			before, after = object(was["metadata"]), object(is["metadata"])
		}
		last := path[len(path)-1]
		if after[last] != nil && !reflect.DeepEqual(before[last], after[last]) {
			return fmt.Errorf("%s cannot be changed: create another document", strings.Join(path, "."))
		}
	}
	return nil
}

// checked checks what a document becomes against the schema of its kind.
func (t *tool) checked(a target, was, document map[string]any, strict bool) error {
	schema, err := a.kind.CompileSchema()
	if err != nil {
		return fmt.Errorf("%w: --no-validate goes without", err)
	}
	found, err := check(schema, document)
	if err != nil {
		return err
	}
	wrong := labelled(a.String(), found)
	isWrong, at := strict || len(wrong) > 0, func(string) string { return a.String() }
	return t.invalid(append(wrong, t.unknownMembers(a.kind, unknownIn(a.kind, document, was), isWrong, at)...))
}

func labelled(label string, found []kinds.Violation) []string {
	wrong := make([]string, 0, len(found))
	for _, v := range found {
		wrong = append(wrong, label+": "+v.String())
	}
	return wrong
}
