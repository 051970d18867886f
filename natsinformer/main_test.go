package natsinformer

import (
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/nagi-runtime/nagi/test/natstest/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leaks.OfServer()...) }

// soak multiplies the rounds of the tests that look for races: NAGI_SOAK=n.
func soak(rounds int) int {
	if n, err := strconv.Atoi(os.Getenv("NAGI_SOAK")); err == nil && n > 0 {
		return rounds * n
	}
	return rounds
}
