package health_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest/leaks"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leaks.OfServer()...) }
