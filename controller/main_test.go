package controller

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes this test binary something else than tests: a process that a test starts in order to kill it.
const childEnv = "NAGI_TEST_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch child, url := os.Getenv(childEnv), os.Getenv("NAGI_TEST_URL"); child {
	case "":
		goleak.VerifyTestMain(m)
	case "user":
		err = userChild(os.Getenv("NAGI_BENCH_KEYS"))
	case "heap":
		err = heapChild(url, os.Getenv("NAGI_TEST_CONTROLLERS"), os.Getenv("NAGI_TEST_DOCUMENTS"))
	case "teardown":
		err = teardownChild(url)
	default:
		fmt.Fprintf(os.Stderr, "no such child: %s=%s\n", childEnv, child)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}
