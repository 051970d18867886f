package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheTraceIsShownTwiceOnOneServer(t *testing.T) {
	server := natstest.Start(t)
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), &out, server.URL()); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		for _, line := range []string{
			"\na customer orders", "\n  put Order", "\n    reconcile Order (Put: succeeded)", "\n      put Workload",
			"\n        reconcile Workload (Put", "\n          put Volume", "\n            reconcile Volume (Put: succeeded)",
			"\n              apply Disk", "\n              put Volume record", "One trace: ",
		} {
			if !strings.Contains(out.String(), line) {
				t.Errorf("%q is not in\n%s", line, out.String())
			}
		}
	}
}
