// Package servers plays the life cycle of documents on real nats-servers of several versions, each a process of its
// own. Programs of other versions than the main module's are built in the modules below. The package has only tests.
package servers

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"
)

// version is a line of releases of nats-server.
type version struct {
	line    string // of ConnectedServerVersion: "2.10."
	program string // the directory of the program
	// ttl: with 2.11 came TTLs of messages, and markers of what a limit removes.
	ttl bool
}

// versions are those on which Nagi works, the oldest first.
var versions = []version{
	{"2.9.", "nats209", false},
	{"2.10.", "nats210", false},
	{"2.11.", "nats211", true},
	{"2.12.", "nats212", true},
	{"2.14.", "nats214", true},
	{server.VERSION, "current", true},
}

// refused is the newest line that lacks what Nagi needs.
var refused = version{"2.8.", "nats208", false}

// atOnceMin is how many tests run at once, at least: they mostly wait.
const atOnceMin = 6

func TestMain(m *testing.M) {
	if config := os.Getenv(memberEnv); config != "" {
		if err := runMember(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(atOnceMin, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := programs.remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// onEach plays a scenario on a server of each version.
func onEach(t *testing.T, play func(w *world)) {
	t.Helper()
	t.Parallel()
	for _, v := range versions {
		t.Run(v.program, func(t *testing.T) {
			t.Parallel()
			play(newWorld(t, v))
		})
	}
}
