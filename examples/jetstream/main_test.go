package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryStepHoldsTwiceOnOneServer(t *testing.T) {
	server := natstest.Start(t)
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), &out, server.URL()); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if !strings.HasSuffix(out.String(), "steps hold.\n") {
			t.Errorf("printed:\n%s", out.String())
		}
	}
}

func TestAStepThatDoesNotHoldIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &cancelAtStep{cancel: cancel, step: "create Stream"}
	err := run(ctx, out, "")
	if err == nil || !strings.Contains(err.Error(), `step "publish an order"`) {
		t.Errorf("error %v does not name the step that failed", err)
	}
}

// cancelAtStep cancels the context when a step has been printed.
type cancelAtStep struct {
	bytes.Buffer
	cancel context.CancelFunc
	step   string
}

func (c *cancelAtStep) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.step) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}
