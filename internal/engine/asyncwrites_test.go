package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// submitted has w await a write whose acknowledgement never comes, and returns when it was given up.
func submitted(w *asyncWrites) (ended <-chan time.Time) {
	at := make(chan time.Time, 1)
	w.Submit(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}, func(context.Context, error) { at <- time.Now() })
	return at
}

func TestAWriteThatIsLateSoonHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.Start(t.Context())
		late := submitted(w)
		began, finished := time.Now(), make(chan error, 1)
		w.Submit(func(context.Context) error { return nil }, func(_ context.Context, err error) { finished <- err })
		if err := <-finished; err != nil || time.Since(began) > lateAfter {
			t.Errorf("another write ended with %v after %v", err, time.Since(began))
		}
		w.CloseSoon()
		w.Close()
		<-late
	})
}

func TestSubmitWaitsWhileTooManyWritesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.Start(t.Context())
		answered, more := make(chan struct{}), make(chan struct{})
		wait := func(context.Context) error { <-answered; return nil }
		then := func(context.Context, error) {}
		for range mostUnderWay {
			w.Submit(wait, then)
		}
		go func() { w.Submit(wait, then); close(more) }()
		synctest.Wait()
		select {
		case <-more:
			t.Errorf("more than %d writes are under way", mostUnderWay)
		default:
		}
		answered <- struct{}{} // one of them
		<-more
		close(answered)
		w.CloseSoon()
		w.Close()
	})
}

// TestWritesUnderWayEndSoonAfterTheStop, and those that reconciles submit later, in their grace period, have as long.
func TestWritesUnderWayEndSoonAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.Start(t.Context())
		stopped := time.Now()
		before := submitted(w)
		w.CloseSoon()
		time.Sleep(10 * grace)
		resubmitted := time.Now()
		after := submitted(w)
		w.Close()
		if took := (<-before).Sub(stopped); took != grace {
			t.Errorf("the write under way ended %v after the stop, want %v", took, grace)
		}
		if took := (<-after).Sub(resubmitted); took != grace {
			t.Errorf("the write submitted after the stop ended %v after, want %v", took, grace)
		}
	})
}

// TestAWriteEndsWithItsTerm, also one that is submitted after the stop. Those of the next term go on.
func TestAWriteEndsWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.Start(t.Context())
		first, lose := context.WithCancel(t.Context())
		w.BeginTerm(first)
		old := submitted(w)
		second, end := context.WithCancel(t.Context())
		defer end()
		lose()
		<-old
		w.BeginTerm(second)
		young := submitted(w)
		synctest.Wait()
		select {
		case <-young:
			t.Error("a write of the next term ended with the last one")
		default:
		}
		began := time.Now()
		w.CloseSoon()
		last := submitted(w)
		end()
		<-last
		<-young
		if took := time.Since(began); took > 0 {
			t.Errorf("writes ended %v after their term", took)
		}
		w.Close()
	})
}
