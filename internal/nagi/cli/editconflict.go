package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// conflict asks what to do about a document that has changed meanwhile.
func (e *editing) conflict(ctx context.Context, mine map[string]any, cause error) (
	next []byte, says string, done bool, err error,
) {
	if !e.t.Interactive {
		return nil, "", true, withCode(CodeRefused, fmt.Errorf("%s has changed meanwhile: %w", e.a.String(), cause))
	}
	theirs, err := e.existing(ctx, e.client, e.a)
	if err != nil {
		return nil, "", true, err
	}
	merged, both := threeway.Merge(e.base.object, mine, theirs.object)
	e.t.Notef("%s has changed meanwhile, and is at revision %d:\n", e.a.String(), theirs.revision)
	e.t.showDiff(e.t.Err, e.a, e.base.object, theirs.object, "as you got it", "as it is")
	if len(both) > 0 {
		e.t.Notef("Both have changed %s.\n", printable.Message(strings.Join(both, ", ")))
	}
	e.t.Notef("merge (m) both changes, reload (r) and begin again, or abort (a)? ")
	answer, _ := e.t.answer()
	switch strings.ToLower(answer) {
	case "m", "merge":
		e.base, e.shown = theirs, &current{object: merged}
		next, err = e.text(merged)
		return next, e.mergeSays(both), err != nil, err
	case "r", "reload":
		if err := e.keep(mine); err != nil {
			return nil, "", true, err
		}
		e.base, e.shown, e.saved = theirs, theirs, false
		next, err = e.text(theirs.object)
		return next, "", err != nil, err
	}
	return nil, "", true, withCode(CodeRefused, fmt.Errorf("%s is not saved", e.a.String()))
}

// keep puts what the user has typed into a file of its own, before he begins again.
func (e *editing) keep(mine map[string]any) error {
	text, err := e.text(mine)
	if err != nil {
		return err
	}
	file := strings.TrimSuffix(e.file, ".yaml") + fmt.Sprintf("-of-revision-%d.yaml", e.base.revision)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	e.t.Notef("Your text is in %s.\n", file)
	return nil
}

func (e *editing) mergeSays(both []string) string {
	if len(both) == 0 {
		return "merged with what others have changed"
	}
	return "merged with what others have changed; yours stands in " + strings.Join(both, ", ")
}
