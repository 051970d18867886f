package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (t *tool) explainCommand() *cobra.Command {
	var recursive bool
	var output string
	cmd := &cobra.Command{
		Use:   "explain KIND[.MEMBER…]",
		Short: "Explain the members of a kind's documents, from its schema",
		Long: `Explain says what the schema of a kind has about its documents, or about a member of them: type, what it
is for, what holds for its value, and the members below, one level, or all with --recursive. Elements of a list and
values of a map need no step of their own: spec.hosts.name is that of each of the hosts.`,
		Example: `  nagi explain websites
  nagi explain websites.spec.theme
  nagi explain websites --recursive
  nagi explain websites.spec.nosuch  # exit code 3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeFields,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			k, path, err := s.kindAndPath(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f, err := k.Field(path, recursive)
			if err != nil {
				return err
			}
			return printAs(&t.Streams, output, f, func() error { return t.printField(k, f) })
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "all levels of members")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

// kindAndPath splits "KIND.member.member". A kind may have dots, too: the longest that there is counts.
func (s *session) kindAndPath(ctx context.Context, text string) (*kinds.Kind, []string, error) {
	words := strings.Split(text, ".")
	var first error
	for n := len(words); n > 0; n-- {
		k, err := s.kind(ctx, strings.Join(words[:n], "."))
		if err == nil {
			return k, words[n:], nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, nil, err
		}
		if first == nil || n == 1 {
			first = err // about the shortest name
		}
	}
	return nil, nil, first
}

func (t *tool) printField(k *kinds.Kind, f *kinds.Field) error {
	p := &sections{t: t}
	p.line("KIND", k.Kind, out.Bold)
	p.line("APIVERSION", k.APIVersion, out.Plain)
	if f.Path != "" {
		p.line("MEMBER", f.Path+" <"+f.Type+">"+marks(f), out.Plain)
	}
	if f.Description != "" {
		p.b.WriteString("\n")
		p.paragraph(f.Description, "")
	}
	if len(f.Rules) > 0 {
		p.b.WriteString("\n")
		p.rules(f, "")
	}
	if f.Recurs {
		p.b.WriteString("\nIts members are those of what it is in.\n")
	}
	if len(f.Fields) > 0 {
		p.b.WriteString("\n")
		p.title("MEMBERS")
		p.fields(f.Fields, "  ")
	}
	_, err := p.b.WriteTo(t.Out)
	return err
}

func marks(f *kinds.Field) (text string) {
	for _, mark := range []struct {
		is   bool
		says string
	}{{f.Required, "required"}, {f.ReadOnly, "read only"}, {f.Secret, "secret"}} {
		if mark.is {
			text += " -" + mark.says + "-"
		}
	}
	return text
}

func (p *sections) fields(all []kinds.Field, indent string) {
	for i := range all {
		f := &all[i]
		fmt.Fprintf(&p.b, "%s%s <%s>%s\n", indent, p.t.Paint(out.Bold, printable.Text(f.Name)), printable.Text(f.Type),
			p.t.Paint(out.Warn, marks(f)))
		p.paragraph(f.Description, indent+"  ")
		p.rules(f, indent+"  ")
		if f.Recurs {
			fmt.Fprintf(&p.b, "%s(its members are those of what it is in)\n", indent+"  ")
		}
		p.fields(f.Fields, indent+"  ")
	}
}

func (p *sections) rules(f *kinds.Field, indent string) {
	for _, rule := range f.Rules {
		fmt.Fprintf(&p.b, "%s%s\n", indent, p.t.Paint(out.Faint, printable.Message(rule)))
	}
}

// paragraph prints a text in lines that fit.
func (p *sections) paragraph(text, indent string) {
	const most = 100
	var line bytes.Buffer
	end := func() {
		if line.Len() > 0 {
			fmt.Fprintf(&p.b, "%s%s\n", indent, line.String())
			line.Reset()
		}
	}
	for part := range strings.SplitSeq(text, "\n") {
		for _, word := range strings.Fields(printable.Message(part)) {
			if line.Len() > 0 && line.Len()+len(word) >= most-len(indent) {
				end()
			}
			if line.Len() > 0 {
				line.WriteByte(' ')
			}
			line.WriteString(word)
		}
		end()
	}
}

// completeFields completes KIND, and behind a dot its members.
func (t *tool) completeFields(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	i := strings.LastIndexByte(typed, '.')
	if len(args) > 0 || i < 0 {
		all, none := t.completeKinds(cmd, args, typed)
		return all, none | cobra.ShellCompDirectiveNoSpace
	}
	if t.flags.Complete() != nil {
		return nil, directive
	}
	s, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	k, path, err := s.kindAndPath(cmd.Context(), typed[:i])
	if err != nil {
		return nil, directive
	}
	f, err := k.Field(path, false)
	if err != nil {
		return nil, directive
	}
	var all []string
	for _, member := range f.Fields {
		all = append(all, typed[:i+1]+member.Name)
	}
	return all, directive
}
