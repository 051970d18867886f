package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryStepHoldsAndIsPrintedWithRevisionAndLatency(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; last != "All 7 steps hold." {
		t.Errorf("last line %q", last)
	}
	for _, line := range lines[:7] {
		if !strings.Contains(line, "revision") || !strings.HasSuffix(line, " ms") {
			t.Errorf("line %q lacks revision or latency", line)
		}
	}
}

func TestAStepThatDoesNotHoldIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	err := run(ctx, cancelAfterLine{&out, cancel})
	if err == nil || !strings.Contains(err.Error(), "step 2, update the app's image") {
		t.Errorf("error %v does not name the second step", err)
	}
}

// cancelAfterLine cancels the context after the first step.
type cancelAfterLine struct {
	*bytes.Buffer
	cancel context.CancelFunc
}

func (c cancelAfterLine) Write(p []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(p)
}
