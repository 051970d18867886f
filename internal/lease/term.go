package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errNotRenewed = errors.New("lease not renewed in time")
	errTaken      = errors.New("lease taken")
	errExiting    = errors.New("the process ends at once")
)

// Term is one time as the holder of the lease. The zero Term is over.
type Term struct {
	// Revision is that of the key when the term began. What an earlier holder wrote to the same stream has a lower one.
	Revision uint64

	began time.Time
	until atomic.Int64 // nanoseconds after began; 0 once the term is over
	end   context.CancelCauseFunc
}

func newTerm(won version, lasts time.Duration, end context.CancelCauseFunc) *Term {
	t := &Term{Revision: won.revision, began: won.at, end: end}
	t.until.Store(int64(lasts))
	return t
}

// Over reports whether the lease was lost. It asks the clock: after a pause of the process timers may fire late. If the
// lease was not renewed in time Over ends the term's context. It may be called at any time, by several goroutines.
func (t *Term) Over() bool { return t.overAfter(time.Since(t.began)) }

// OverAt is Over for a caller that has just read the clock.
func (t *Term) OverAt(now time.Time) bool { return t.overAfter(now.Sub(t.began)) }

func (t *Term) overAfter(elapsed time.Duration) bool {
	for {
		until := t.until.Load()
		if until == 0 {
			return true
		}
		if elapsed < time.Duration(until) {
			return false
		}
		if t.until.CompareAndSwap(until, 0) {
			t.end(errNotRenewed)
			return true
		}
	}
}

// renewed lets the term last longer, unless it is over. One goroutine calls it.
func (t *Term) renewed(sent time.Time, lasts time.Duration) {
	until := t.until.Load()
	if !t.Over() {
		t.until.CompareAndSwap(until, int64(sent.Sub(t.began)+lasts))
	}
}

// left is how long the term lasts if it is not renewed.
func (t *Term) left() time.Duration { return time.Duration(t.until.Load()) - time.Since(t.began) }

func (t *Term) lose(cause error) {
	t.until.Store(0)
	t.end(cause)
}

// hold is one term. It returns when the term is over, lead has returned, and no request is
// under way.
func (e *elector) hold(ctx context.Context, won version, lead func(context.Context, *Term)) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	term := newTerm(won, e.Timing.term(), end)
	e.term.Store(term)
	if term.Over() || ctx.Err() != nil {
		return // the answer came too late
	}
	var led sync.WaitGroup
	led.Go(func() { lead(ctx, term) })
	e.keep(ctx, term, won)
	led.Wait()
}

// keep renews the lease until the term is over, or ctx ends. Requests run in a goroutine of their own, because the end
// of the term must not wait for an answer.
func (e *elector) keep(ctx context.Context, term *Term, held version) {
	type answer struct {
		version
		err error
	}
	answers, asking := make(chan answer, 1), false
	expiry := time.NewTimer(term.left())
	defer expiry.Stop()
	next := time.NewTimer(e.Timing.RetryPeriod - time.Since(held.at))
	defer next.Stop()
	removed := false
	for ctx.Err() == nil && !term.Over() {
		select {
		case <-ctx.Done():
		case <-expiry.C:
		case <-e.Removed:
			if removed = asking; !asking {
				next.Reset(0)
			}
		case <-next.C:
			asking = true
			go func() {
				renewed, err := e.renew(ctx, held)
				answers <- answer{renewed, err}
			}()
		case got := <-answers:
			asking = false
			pause := e.Timing.RetryPeriod
			switch {
			case got.err == nil:
				held = got.version
				term.renewed(held.at, e.Timing.term())
				expiry.Reset(term.left())
				pause -= time.Since(held.at)
			case errors.Is(got.err, errTaken):
				term.lose(got.err)
			}
			if removed { // after the last look, perhaps
				removed, pause = false, 0
			}
			next.Reset(pause)
		}
	}
	if asking {
		<-answers
	}
}
