package controllerruntime

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes this test binary something else than tests: a process that a test starts in order to kill it.
const childEnv = "NAGI_TEST_CHILD"

func TestMain(m *testing.M) {
	switch child := os.Getenv(childEnv); child {
	case "":
		goleak.VerifyTestMain(m)
	case "crash":
		if err := crashChild(os.Getenv("NAGI_TEST_URL")); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "no such child: %s=%s\n", childEnv, child)
		os.Exit(2)
	}
}
