package natsinformer

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The limits of these tests are promises for a machine that serves them. While others keep it busy, server and
// informer stand still together, and the wall clock says nothing of either. So limits count served time: a byte goes
// through a pipe again and again, as a plain request would, and each round counts for as long as it took, but for at
// most servedRound. On a quiet machine that is the wall clock's time.
//
// A round that this process made long by itself counts in full: the machine served it by giving it processor time.
const servedRound = 5 * time.Millisecond

// stall is how long a round must be for a watch to take its consumer for silent.
const stall = (silence - heartbeat) / 2

// servedIn returns how much time a round counts if this process used so much time of so many processors in it, and
// whether others kept the machine so busy that a watch may take its consumer for silent.
func servedIn(round, used time.Duration, processors int) (counts time.Duration, stalled bool) {
	own := min(used/time.Duration(processors), round)
	return max(min(round, servedRound), own), round > stall && own < round/2
}

// processorTime returns how much processor time this process has had until now.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // as if others had had it all
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// served measures the time in which this process was served.
type served struct {
	elapsed atomic.Int64  // nanoseconds
	stalls  atomic.Uint64 // see servedIn
	over    chan struct{}
	wg      sync.WaitGroup
}

func startServed(t testing.TB) *served {
	t.Helper()
	back, there, err := os.Pipe()
	must(t, err)
	s := &served{over: make(chan struct{})}
	answers := make(chan struct{})
	s.wg.Go(func() {
		defer close(answers)
		for b := make([]byte, 1); ; {
			if _, err := back.Read(b); err != nil {
				_ = back.Close()
				return
			}
			answers <- struct{}{}
		}
	})
	s.wg.Go(func() {
		pause := time.NewTicker(time.Millisecond)
		defer pause.Stop()
		processors := runtime.GOMAXPROCS(0)
		for began, before := time.Now(), processorTime(); ; {
			select {
			case <-s.over:
				_ = there.Close() // which ends the reading
				return
			case <-pause.C:
			}
			if _, err := there.Write([]byte{0}); err == nil {
				<-answers
			}
			took, now := time.Since(began), processorTime()
			counts, stalled := servedIn(took, now-before, processors)
			began, before = began.Add(took), now
			s.elapsed.Add(int64(counts))
			if stalled {
				s.stalls.Add(1)
			}
		}
	})
	return s
}

func (s *served) now() time.Duration { return time.Duration(s.elapsed.Load()) }

func (s *served) has(limit time.Duration) bool { return s.now() >= limit }

func (s *served) stop() {
	close(s.over)
	s.wg.Wait()
}

// eventually polls until the condition holds, more rarely the longer it waits.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	if condition() {
		return
	}
	began, clock := time.Now(), startServed(t)
	defer clock.stop()
	for !condition() {
		waited := time.Since(began)
		if clock.has(limit) {
			t.Fatalf("not within %s (%s by the wall clock): %s", limit, waited.Round(time.Millisecond), what)
		}
		time.Sleep(min(max(waited/50, time.Millisecond), 10*time.Millisecond))
	}
}

// within runs a function that must return within the limit, and without an error.
func within(t testing.TB, limit time.Duration, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	clock := startServed(t)
	defer clock.stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			must(t, err)
			return
		case <-tick.C:
			if clock.has(limit) {
				cancel() // this ends it
			}
		}
	}
}

// reaches waits until the cursor has reached a revision.
func (r *running) reaches(t testing.TB, revision uint64, limit time.Duration) {
	t.Helper()
	within(t, limit, func(ctx context.Context) error { return r.WaitCursor(ctx, revision) })
}

// stalls returns a function that says how often, since the call of stalls, the machine has left this process unserved
// for so long that a watch may take its consumer for silent.
func stalls(t testing.TB) (count func() uint64) {
	t.Helper()
	clock := startServed(t)
	t.Cleanup(clock.stop)
	return clock.stalls.Load
}

// resumedOnce checks that the watch went on from its cursor once, and once more at most for each stall.
func (r *running) resumedOnce(t testing.TB, stalled func() uint64) {
	t.Helper()
	if n := r.Status().Resumes; n == 0 || n > 1+stalled() {
		t.Errorf("the watch was resumed %d times, and the machine stalled %d times", n, stalled())
	}
}

// TestAProcessThatStarvesItselfIsNoStall of the machine, and its time counts in full.
func TestAProcessThatStarvesItselfIsNoStall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what        string
		round, used time.Duration
		counts      time.Duration
		stalled     bool
	}{
		{"a quiet machine", time.Millisecond, 0, time.Millisecond, false},
		{"others have it all", time.Second, 0, servedRound, true},
		{"others have most", time.Second, 400 * time.Millisecond, 200 * time.Millisecond, true},
		{"it has most itself", time.Second, 1200 * time.Millisecond, 600 * time.Millisecond, false},
		{"it has all itself", time.Second, 2 * time.Second, time.Second, false},
		{"a short round", stall, 0, servedRound, false},
		{"more than there is", time.Second, time.Minute, time.Second, false},
	} {
		if counts, stalled := servedIn(test.round, test.used, 2); counts != test.counts || stalled != test.stalled {
			t.Errorf("%s: %s counts for %s (stalled: %v), want %s (%v)",
				test.what, test.round, counts, stalled, test.counts, test.stalled)
		}
	}
	for before := processorTime(); processorTime()-before < 20*time.Millisecond; { // work counts, if the test ends
		continue
	}
}
