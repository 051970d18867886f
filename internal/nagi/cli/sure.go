package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// sure are the flags that tell a command that deletes to go on.
type sure struct {
	yes    bool
	expect int
}

func (c *sure) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask before something is deleted")
	cmd.Flags().IntVar(&c.expect, "expect", -1, "go on only if this many documents are to be deleted, without asking")
}

// confirm asks whether n things may be deleted, which what names. The context ends the wait for the answer.
func (t *tool) confirm(ctx context.Context, c sure, n int, what string) error {
	switch {
	case c.expect >= 0 && c.expect != n:
		return withCode(CodeRefused, fmt.Errorf("%s: that is not the %d of --expect, so nothing is deleted", what,
			c.expect))
	case c.expect >= 0 || c.yes:
		return nil
	case !t.Interactive:
		return usage(fmt.Errorf("%s: --yes deletes without asking, and --expect %d if it is still that many; nothing "+
			"is deleted", what, n))
	}
	t.Notef("Delete %s? Type %d to go on: ", what, n)
	if answer, err := t.line(ctx); err != nil {
		return err
	} else if answer != strconv.Itoa(n) {
		return withCode(CodeRefused, errors.New("nothing is deleted"))
	}
	return nil
}

// answer reads a line that a user types.
func (t *tool) answer() (string, error) {
	if t.lines == nil {
		t.lines = bufio.NewReader(t.In)
	}
	line, err := t.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// count is a number of things: "1 document", "2 documents".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
