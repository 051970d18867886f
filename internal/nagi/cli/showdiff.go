package cli

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/pmezard/go-difflib/difflib"
)

// secretChanged stands for a secret that is not what it was.
const secretChanged = "(secret, changed)"

// besides is where a command prints what is not its result as -o has it: of text it is a part.
func (t *tool) besides(output string) io.Writer {
	if output == "text" {
		return t.Out
	}
	return t.Err
}

// showDiff prints how two states of a document differ, as a unified diff of their YAML, and reports whether they do.
// nil is a document that is not there.
func (t *tool) showDiff(w io.Writer, of target, from, to map[string]any, names ...string) bool {
	if len(names) == 0 {
		names = []string{"is", "would be"}
	}
	a, b := shown(of.kind, from, to)
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(a), B: lines(b), Context: 3,
		FromFile: of.String() + " (" + names[0] + ")", ToFile: of.String() + " (" + names[1] + ")",
	})
	if err != nil || text == "" {
		return false
	}
	for line := range strings.Lines(text) {
		tone := out.Plain
		switch line[0] {
		case '+':
			tone = out.Good
		case '-':
			tone = out.Bad
		case '@':
			tone = out.Faint
		}
		fmt.Fprintf(w, "%s\n", t.Paint(tone, printable.Message(strings.TrimSuffix(line, "\n"))))
	}
	return true
}

// shown are the states of a document as a diff shows them: without what apply notes, and with secrets hidden.
func shown(k *kinds.Kind, from, to map[string]any) (a, b map[string]any) {
	if from != nil {
		a = deepCopy(from)
		k.Hide(a)
	}
	if to != nil {
		b = deepCopy(to)
		k.Hide(b)
		markChanged(a, from, b, to)
	}
	for _, one := range []map[string]any{a, b} {
		meta := object(one["metadata"])
		annotations := object(meta["annotations"])
		delete(annotations, lastApplied)
		if _, has := meta["annotations"]; has && len(annotations) == 0 {
			delete(meta, "annotations")
		}
		if _, has := one["metadata"]; has && len(meta) == 0 {
			delete(one, "metadata")
		}
	}
	return a, b
}

// markChanged marks the secrets of b that are not those of a. from and to are what they hide.
func markChanged(a, from, b, to any) any {
	if b == any(kinds.Hidden) && a == b && !reflect.DeepEqual(from, to) {
		return secretChanged
	}
	switch b := b.(type) {
	case map[string]any:
		for name, v := range b {
			b[name] = markChanged(object(a)[name], object(from)[name], v, object(to)[name])
		}
	case []any:
		was, _ := a.([]any)
		before, _ := from.([]any)
		after, _ := to.([]any)
		for i := range b {
			if i < len(was) && i < len(before) && i < len(after) {
				b[i] = markChanged(was[i], before[i], b[i], after[i])
			}
		}
	}
	return b
}

func lines(document map[string]any) []string {
	if document == nil {
		return nil
	}
	text, err := manifests.YAML(document)
	if err != nil {
		return nil
	}
	return difflib.SplitLines(strings.TrimSuffix(string(text), "\n"))
}
