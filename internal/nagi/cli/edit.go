package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// editing is one run of edit.
type editing struct {
	*session
	a           target
	client      *client
	namespace   string
	output      string
	showSecrets bool
	checking
	unknown []string // members that the kind does not know, to be told once they are written
	file    string   // with what the user has typed
	base    *current // what is replaced
	shown   *current // what the text shows, secrets hidden
	saved   bool     // the user has typed something
	wrong   bool     // and it could not be saved
}

func (t *tool) editCommand() *cobra.Command {
	e := &editing{}
	cmd := &cobra.Command{
		Use:   "edit KIND/KEY",
		Short: "Edit a document in your editor",
		Long: `Edit a document in $VISUAL or $EDITOR (else vi), as YAML. What you save is checked against the schema
and written by compare-and-set. If the document has changed meanwhile, you may merge both changes, begin again with what
is there, or stop. A text that could not be saved stays in a file, whose name is told.

Secrets are shown as (secret), which keeps their values; write over it to set another one.`,
		Example: `  nagi edit websites/shop/home
  EDITOR=nano nagi edit websites/shop/home --show-secrets
  nagi edit websites home -n shop -o json`,
		Annotations:       map[string]string{"examples": "elsewhere"},
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: t.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if e.session, err = t.connect(); err != nil {
				return err
			}
			ctx := cmd.Context()
			if e.a, err = e.keyed(ctx, args, e.namespace); err != nil {
				return err
			}
			if e.client, err = e.writer(ctx, e.a.kind); err != nil {
				return err
			}
			return e.run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&e.namespace, "namespace", "n", "", "namespace of the document")
	flags.BoolVar(&e.showSecrets, "show-secrets", false, "show secrets in the editor")
	e.register(cmd)
	oneOf(cmd, &e.output, "text", "name", "json", "yaml")
	return cmd
}

func (e *editing) run(ctx context.Context) (err error) {
	if e.base, err = e.existing(ctx, e.client, e.a); err != nil {
		return err
	}
	if e.base.object == nil {
		return usage(fmt.Errorf("%s is no JSON object at revision %d: apply replaces it", e.a, e.base.revision))
	}
	f, err := os.CreateTemp("", "nagi-edit-*.yaml") // for its user alone
	if err != nil {
		return err
	}
	if e.file = f.Name(); f.Close() != nil {
		return fmt.Errorf("writing %s failed", e.file)
	}
	defer func() {
		if err != nil && e.saved {
			err = withCode(codeOf(ctx, err), fmt.Errorf("%w; your text is in %s", err, e.file))
			return
		}
		_ = os.Remove(e.file)
	}()
	e.shown = e.base
	text, err := e.text(e.base.object)
	for says := ""; err == nil; {
		var done bool
		if text, says, done, err = e.round(ctx, text, says); done {
			break
		}
	}
	return err
}

// text is a document as it is edited.
func (e *editing) text(document map[string]any) ([]byte, error) {
	document = deepCopy(document)
	if !e.showSecrets {
		e.a.kind.Hide(document)
	}
	return manifests.YAML(document)
}

// round has the user edit a text once, and saves it. It returns the text for another round, and what is to be said
// above it.
func (e *editing) round(ctx context.Context, text []byte, says string) (next []byte, why string, done bool, err error) {
	if err := os.WriteFile(e.file, append(e.head(says), text...), 0o600); err != nil {
		return nil, "", true, err
	}
	failed := e.edit(ctx)
	edited, err := os.ReadFile(e.file)
	if edited = withoutHead(edited); failed != nil {
		e.saved = e.saved || len(bytes.TrimSpace(edited)) > 0 && !bytes.Equal(edited, text)
		return nil, "", true, failed
	}
	if err != nil {
		return nil, "", true, err
	}
	if e.wrong && bytes.Equal(edited, text) {
		return nil, "", true, usage(fmt.Errorf("%s is not saved: %s", e.a.String(), says))
	}
	if len(bytes.TrimSpace(edited)) == 0 {
		e.saved = false
		e.t.Notef("Nothing is changed: the text is empty.\n")
		return nil, "", true, e.tell(ctx, "unchanged")
	}
	e.saved = true
	wanted, wrong := e.parse(edited)
	if e.wrong = wrong != ""; e.wrong {
		if !e.t.Interactive {
			return nil, "", true, usage(errors.New(wrong))
		}
		return edited, wrong, false, nil
	}
	if len(threeway.Diff(e.base.object, wanted)) == 0 {
		return nil, "", true, e.tell(ctx, "unchanged")
	}
	err = e.write(context.WithoutCancel(ctx), e.client, e.a.key, e.base, wanted)
	if apierrors.IsConflict(err) {
		return e.conflict(ctx, wanted, err)
	}
	if err == nil {
		for _, line := range e.unknown {
			e.t.Notef("%s\n", line)
		}
		e.saved = false
		err = e.tell(ctx, "edited")
	}
	return nil, "", true, err
}

// tell prints what became of the document.
func (e *editing) tell(ctx context.Context, says string) error {
	return e.tellOne(ctx, e.a, e.output, result{Result: says, Revision: e.base.revision}, says != "unchanged")
}

// parse reads what the user has typed; wrong says what is wrong with it.
func (e *editing) parse(text []byte) (wanted map[string]any, wrong string) {
	read, err := manifests.Parse(e.file, text)
	switch {
	case err != nil:
		return nil, err.Error()
	case len(read) != 1:
		return nil, "it is not one document"
	}
	wanted = read[0].Document
	if err := keepsPlace(e.base.object, wanted); err != nil {
		return nil, err.Error()
	}
	if err := unhide(e.a.kind, wanted, e.shown); err != nil {
		return nil, err.Error()
	}
	if e.noValidate {
		return wanted, ""
	}
	schema, err := e.a.kind.CompileSchema()
	if err != nil {
		return nil, err.Error()
	}
	found, err := check(schema, wanted)
	if err != nil {
		return nil, err.Error()
	}
	lines := labelled(e.a.String(), found)
	e.unknown = nil
	for _, u := range unknownIn(e.a.kind, wanted, e.base.object) {
		if e.strict || len(found) > 0 {
			lines = append(lines, u.About(e.a.kind.Kind))
		}
		e.unknown = append(e.unknown, kept(e.a.kind, u))
	}
	return wanted, strings.Join(lines, "\n")
}

const headMark = "#nagi "

// head is the comment above a text.
func (e *editing) head(says string) []byte {
	head := []string{
		fmt.Sprintf("%s, revision %d. Lines that begin with %s are not saved.", e.a.String(), e.base.revision,
			strings.TrimSpace(headMark)),
		"Save to write the document; an empty file changes nothing.",
	}
	if says != "" {
		head = append(head, strings.Split(says, "\n")...)
	}
	for i := range head {
		head[i] = headMark + printable.Message(head[i])
	}
	return []byte(strings.Join(head, "\n") + "\n")
}

func withoutHead(text []byte) []byte {
	all := bytes.SplitAfter(text, []byte("\n"))
	all = slices.DeleteFunc(all, func(line []byte) bool { return bytes.HasPrefix(line, []byte(headMark)) })
	return bytes.Join(all, nil)
}

// edit runs the user's editor on the file.
func (e *editing) edit(ctx context.Context) error {
	if e.t.Edit != nil {
		return e.t.Edit(ctx, e.file)
	}
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if s := os.Getenv(name); s != "" {
			editor = s
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, "sh", e.file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("nothing is changed, since the editor %s ended with %w: $VISUAL or $EDITOR says which one "+
			"to use", printable.Quote(editor), err)
	}
	return nil
}
