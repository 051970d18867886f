package notify

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFactIsToldOnceAndWhenItsReasonChangesAndWhenItEnds(t *testing.T) {
	var f Fact
	if f.Over() {
		t.Error("the end of what was never told is news")
	}
	for i, step := range []struct {
		reason string // "": it is over
		news   bool
	}{
		{"away", true}, {"away", false}, {"denied", true}, {"denied", false}, {"away", true}, {"", true}, {"", false},
		{"away", true},
	} {
		news := false
		if step.reason == "" {
			news = f.Over()
		} else {
			news = f.Tell(step.reason)
		}
		if news != step.news {
			t.Errorf("step %d, %q: news %v", i, step.reason, news)
		}
	}
}

func TestTheSameFailureIsToldEachTimeThatTheAttemptsHaveDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told Fact
		var attempts []int
		for attempt := 1; attempt <= 100; attempt++ {
			err := fmt.Errorf("dial 10.0.0.%d:4222: refused after %v", attempt, time.Duration(attempt)*time.Millisecond)
			if told.Repeat(attempt, err.Error()) {
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
		var told Fact
		kinds := []error{errors.New("refused"), errors.New("not allowed")}
		n := 0
		for attempt := 1; attempt <= 1000; attempt++ {
			if told.Repeat(attempt, kinds[attempt%2].Error()) {
				n++
			}
			time.Sleep(10*time.Millisecond + time.Microsecond)
		}
		if n < 10 || n > 10+10 {
			t.Errorf("%d told of 1000 failures in ten seconds", n)
		}
	})
}

func TestWhatLastsIsToldAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Fact
		n := 0
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			if f.Remind("away", 10*time.Second) {
				n++
			}
		}
		if n != 6 {
			t.Errorf("told %d times in a minute, want 6", n)
		}
	})
}

// TestWhichRequestFoundItIsNoNews, but each of several errors that are joined is.
func TestWhichRequestFoundItIsNoNews(t *testing.T) {
	away := errors.New("no answer")
	written := fmt.Errorf("writing key %q: %w", "a", Because("no answer", away))
	read := fmt.Errorf("reading key %q: %w", "b", Because("no answer", away))
	if Reason(written) != Reason(read) || !errors.Is(written, away) {
		t.Errorf("reasons %q and %q", Reason(written), Reason(read))
	}
	if Reason(errors.Join(written, read)) == Reason(written) {
		t.Error("two that are joined are one of them")
	}
	if Reason(nil) != "" || Because("no answer", nil) != nil {
		t.Error("nothing has a reason")
	}
}
