package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryStepHoldsAndIsPrinted(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, "", ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; last != "All 9 steps hold." {
		t.Errorf("last line %q", last)
	}
}

func TestAStepThatDoesNotHoldIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, &cancelAfterStep{Buffer: &out, cancel: cancel}, "", "")
	if err == nil || !strings.Contains(err.Error(), "step 2,") {
		t.Errorf("error %v does not name the second step", err)
	}
}

// cancelAfterStep cancels the context after the first step.
type cancelAfterStep struct {
	*bytes.Buffer
	cancel context.CancelFunc
}

func (c *cancelAfterStep) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("→")) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}
