package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

func (t *tool) validateCommand() *cobra.Command {
	var f fileFlags
	var schema, output string
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check documents of files against the schemas of their kinds",
		Long: `Check documents of files against the schemas of their kinds, as the registry has them, or against the
schema of --schema, without a connection. Each thing that is wrong has a line, with its place in the file. A member that
the kind does not know is wrong, as it is for kubectl; nagi apply tells of it, and refuses it with --strict.`,
		Example: `  echo '{"kind":"Website","metadata":{"name":"new"},"spec":{"pages":3}}' | nagi validate -f - -n shop
  echo '{"kind":"Website","metadata":{"name":"a"},"spec":{"pages":-1}}' | nagi validate -f - -n shop  # exit code 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if schema != "" {
				return t.validateWith(schema, &f, output)
			}
			return t.validate(cmd.Context(), &f, output)
		},
	}
	f.registerFiles(cmd)
	cmd.Flags().BoolVar(&f.strict, "strict", true,
		"members that the kind does not know are wrong; with --strict=false they are told alone")
	cmd.Flags().StringVar(&schema, "schema", "", "file with the JSON Schema of the documents; needs no connection")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

// invalidity is one thing that is wrong with a document.
type invalidity struct {
	At string `json:"at"`
	kinds.Violation
}

func (t *tool) validate(ctx context.Context, f *fileFlags, output string) error {
	s, err := t.connect()
	if err != nil {
		return err
	}
	f.noValidate = true
	items, err := s.items(ctx, f)
	if err != nil {
		return err
	}
	schemas := map[*registry.Entry]*kinds.Schema{}
	var found []invalidity
	for _, it := range items {
		if _, has := schemas[it.kind.Entry]; !has {
			if schemas[it.kind.Entry], err = it.kind.CompileSchema(); err != nil {
				return err
			}
		}
		wrong, err := check(schemas[it.kind.Entry], it.document)
		if err != nil {
			return err
		}
		for _, v := range wrong {
			found = append(found, invalidity{it.At(v.Path), v})
		}
		found = append(found, t.unknownTo(it.kind, it.document, f.strict, it.At)...)
	}
	return t.tellInvalid(len(items), found, output)
}

// validateWith checks against the schema of a file.
func (t *tool) validateWith(schema string, f *fileFlags, output string) error {
	text, err := os.ReadFile(schema)
	if err != nil {
		return usage(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return usage(fmt.Errorf("%s: %w", schema, err))
	}
	k := &kinds.Kind{Entry: &registry.Entry{Kind: schema, Schema: json.RawMessage(text)}}
	compiled, err := k.CompileSchema()
	if err != nil {
		return usage(err)
	}
	read, err := f.read(t)
	if err != nil {
		return err
	}
	var found []invalidity
	for _, m := range read {
		wrong, err := check(compiled, m.Document)
		if err != nil {
			return err
		}
		for _, v := range wrong {
			found = append(found, invalidity{m.At(v.Path), v})
		}
		found = append(found, t.unknownTo(k, m.Document, f.strict, m.At)...)
	}
	return t.tellInvalid(len(read), found, output)
}

// unknownTo is what is wrong with members that a kind does not know; if they are not wrong, it tells of them.
func (t *tool) unknownTo(k *kinds.Kind, document map[string]any, strict bool, at func(string) string) (
	found []invalidity,
) {
	for _, u := range k.Unknown(document) {
		if strict {
			found = append(found, invalidity{at(u.Path), kinds.Violation{Path: u.Path, Message: u.About(k.Kind)}})
			continue
		}
		t.Notef("%s: %s\n", at(u.Path), kept(k, u))
	}
	return found
}

func (t *tool) tellInvalid(n int, found []invalidity, output string) error {
	found = slices.Compact(found)
	switch output {
	case "text":
		for _, v := range found {
			t.Printf("%s: %s\n", v.At, v.Violation)
		}
		if len(found) == 0 {
			t.Printf("%s valid\n", count(n, "document"))
		}
	default:
		if found == nil {
			found = []invalidity{}
		}
		print := t.JSON
		if output == "yaml" {
			print = t.YAML
		}
		if err := print(found); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return &coded{code: CodeUsage, err: fmt.Errorf("invalid"), silent: true}
	}
	return nil
}
