package natsinformer

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The limits of these tests are promises about a machine that serves them. Where others keep it busy, server and informer stand
// still together, and the wall clock says nothing of either. So limits count served time: a byte goes through a pipe again and
// again, as a plain request would, and each round counts for as long as it took, but for no more than servedRound. On a quiet
// machine that is the wall clock's time.
const servedRound = 5 * time.Millisecond

// served measures the time in which this process was served.
type served struct {
	elapsed atomic.Int64  // nanoseconds
	stalls  atomic.Uint64 // rounds so long that a watch may take its consumer for silent
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
		for began := time.Now(); ; {
			select {
			case <-s.over:
				_ = there.Close() // which ends the reading
				return
			case <-pause.C:
			}
			if _, err := there.Write([]byte{0}); err == nil {
				<-answers
			}
			took := time.Since(began)
			began = began.Add(took)
			s.elapsed.Add(int64(min(took, servedRound)))
			if took > (silence-heartbeat)/2 {
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

// eventually waits for a condition.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	if condition() {
		return
	}
	began, clock := time.Now(), startServed(t)
	defer clock.stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if clock.has(limit) {
			t.Fatalf("not within %s (%s by the wall clock): %s", limit, time.Since(began).Round(time.Millisecond), what)
		}
		<-tick.C
	}
}

// within runs what must come to its end within the limit, and not fail.
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
				cancel() // it ends with that
			}
		}
	}
}

// reaches waits until the cursor has reached a revision.
func (r *running) reaches(t testing.TB, revision uint64, limit time.Duration) {
	t.Helper()
	within(t, limit, func(ctx context.Context) error { return r.WaitCursor(ctx, revision) })
}

// stalls tells how often the machine has not served this process, since it was called first, for so long that a watch may
// take its consumer for silent.
func stalls(t testing.TB) (count func() uint64) {
	t.Helper()
	clock := startServed(t)
	t.Cleanup(clock.stop)
	return clock.stalls.Load
}
