package natstest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/natstest/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leaks.OfServer()...) }

func TestAServerThatWasNotClosedIsFound(t *testing.T) {
	ignore := append(leaks.OfServer(), goleak.IgnoreCurrent())
	s, err := natstest.New()
	if err != nil {
		t.Fatal(err)
	}
	running := goleak.Find(ignore...)
	s.Close()
	if running == nil {
		t.Error("a running server was not found")
	}
	if err := goleak.Find(ignore...); err != nil {
		t.Errorf("a closed server: %v", err)
	}
}
