package failures

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
)

func TestTheSameFailureIsToldEachTimeThatTheAttemptsHaveDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told Told
		var attempts []int
		for attempt := 1; attempt <= 100; attempt++ {
			err := fmt.Errorf("dial 10.0.0.%d:4222: refused after %v", attempt, time.Duration(attempt)*time.Millisecond)
			if _, news := told.Tell(time.Now(), attempt, err); news {
				attempts = append(attempts, attempt)
			}
			time.Sleep(time.Minute)
		}
		if want := "[1 2 4 8 16 32 64]"; fmt.Sprint(attempts) != want {
			t.Errorf("told attempts %v, want %v", attempts, want)
		}
	})
}

// TestAnotherFailureIsToldButNotMoreThanOneASecond.
func TestAnotherFailureIsToldButNotMoreThanOneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told Told
		kinds := []error{errors.New("refused"), errors.New("not allowed")}
		n := 0
		for attempt := 1; attempt <= 1000; attempt++ {
			if _, news := told.Tell(time.Now(), attempt, kinds[attempt%2]); news {
				n++
			}
			time.Sleep(10*time.Millisecond + time.Microsecond)
		}
		if n < 10 || n > 10+10 {
			t.Errorf("%d told of 1000 failures in ten seconds", n)
		}
	})
}

func TestTheReasonOfAPanicHasNoStack(t *testing.T) {
	err := fmt.Errorf("reconcile: %w", guard.Call(func() error { panic("boom\x07") }))
	if reason, message := Reason(err); reason != ReasonPanicked || message != `panic: boom\a` {
		t.Errorf("%s %q", reason, message)
	}
	if reason, message := Reason(errors.New(strings.Repeat("x", 10_000))); reason != ReasonFailed || len(message) > 1100 {
		t.Errorf("%s, %d bytes", reason, len(message))
	}
}
