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
	if err := start(t.Context(), &out, "", false, ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; last != "All 5 steps hold." {
		t.Errorf("last line %q", last)
	}
}

func TestAStepThatDoesNotHoldIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	err := start(ctx, &cancelAfterStep{Buffer: &out, cancel: cancel}, "", false, "")
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

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ config, want string }{
		"no JSON":        {`kinds:`, "read the kinds"},
		"unknown member": {`{"kinds":[{"kind":"Shop","buckets":"shops"}]}`, `unknown field "buckets"`},
		"owned by none":  {`{"kinds":[{"kind":"Shop","bucket":"shops","owns":[{"kind":"Site"}]}]}`, "the kind Site"},
		"twice":          {`{"kinds":[{"kind":"Shop","bucket":"a"},{"kind":"Shop","bucket":"b"}]}`, "Shop twice"},
		"one bucket":     {`{"kinds":[{"kind":"A","bucket":"x"},{"kind":"B","bucket":"x"}]}`, "the bucket x twice"},
		"a template": {`{"kinds":[{"kind":"Shop","bucket":"shops","owns":[{"kind":"Shop","name":"{{.metadata"}]}]}`,
			"Shop, owned by Shop: template"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseKinds([]byte(c.config)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
