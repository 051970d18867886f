// Package rolling tests a rolling update: replicas of the code before the rebuild and of today's code take turns over
// one status bucket, and lose nothing: the lease, the records, the brake and the intents. Each scenario is played both
// ways. The package has only tests; the replicas are package replica.
package rolling

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/nagi-runtime/nagi/test/rolling/replica"
	"go.uber.org/goleak"
)

// atOnceMin is how many tests run at once, at least: they mostly wait for leases to run out.
const atOnceMin = 4

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := replica.Main(os.Args[1:]); err != nil {
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
		if err := removeOldBuild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}
