package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// expected is the flag --expect: how many the user has read, of what an act is for.
type expected struct{ n int }

func (e *expected) flag(cmd *cobra.Command, what string) {
	cmd.Flags().IntVar(&e.n, "expect", -1, "how many "+what+" you have read; without it a terminal asks for the number")
}

// confirmed checks that the user means this number, by --expect or typed at a terminal. what says what n are, as in
// "deletes to let go", and how names the command.
func (t *tool) confirmed(ctx context.Context, e expected, n int, what, how string) error {
	got := e.n
	if got < 0 {
		if !t.Interactive {
			return withCode(CodeRefused, fmt.Errorf("nothing is done without the number of %s: look at them, "+
				"then say\n  %s --expect %d", what, how, n))
		}
		t.Notef("Type the number of %s (%d) to go on: ", what, n)
		line, err := t.line(ctx)
		if err != nil {
			return err
		}
		if got, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			return withCode(CodeRefused, fmt.Errorf("nothing is done: %q is not the number %d", line, n))
		}
	}
	if got != n {
		return withCode(CodeRefused, fmt.Errorf("nothing is done: there are %d %s now, not %d: look at them again", n,
			what, got))
	}
	return nil
}

// line reads a line that the user types; the context ends the wait.
func (t *tool) line(ctx context.Context) (string, error) {
	type typed struct {
		line string
		err  error
	}
	read := make(chan typed, 1)
	go func() { // ends with the line, or with the process
		line, err := t.answer()
		read <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("interrupted: nothing is done")
	case r := <-read:
		if r.line != "" {
			return r.line, nil
		}
		return "", withCode(CodeRefused, fmt.Errorf("nothing is done: no number was typed"))
	}
}
