// Package faults plays one scenario as in production: primaries in NATS with secondaries in Kubernetes, in NATS and
// behind an API, a writer that never stops, and everything else killed and broken meanwhile. It has only tests.
package faults

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes this test binary one of the processes that the scenario kills.
const childEnv = "NAGI_TEST_CHILD"

func TestMain(m *testing.M) {
	children := map[string]func() error{"nats": natsChild, "controller": controllerChild}
	name := os.Getenv(childEnv)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	child, ok := children[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no such child: %s=%s\n", childEnv, name)
		os.Exit(2)
	}
	go dieWithParent()
	if err := child(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// dieWithParent ends a child whose parent is gone: its standard input is a pipe that only the parent holds open.
func dieWithParent() {
	_, _ = os.Stdin.Read(make([]byte, 1)) // only the end of the pipe ever comes
	os.Exit(3)
}
