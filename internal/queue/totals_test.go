package queue

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// TestTotalsCountWhatBecameDueAndWhatWasDelayed, as the metrics of client-go's workqueue do: what is due already is not
// added again, and a retry is what was added with a delay.
func TestTotalsCountWhatBecameDueAndWhatWasDelayed(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	want := func(step string, adds, delays uint64) {
		t.Helper()
		if a, d := q.Totals(); a != adds || d != delays {
			t.Errorf("%s: %d adds and %d delays, want %d and %d", step, a, d, adds, delays)
		}
	}
	put, retry := operation.Of(operation.Put), operation.Of(operation.Retry)
	q.Add("a", put, Live)
	q.Add("a", put, Live)
	want("the second is the same run", 1, 0)
	it, _ := q.Get(context.Background())
	q.Add("a", put, Live)
	want("behind a run in progress it is another one", 2, 0)
	q.GiveBack(it)
	q.Done("a")
	want("what is given back joins it", 2, 0)
	q.AddAfter("b", retry, Background, time.Hour, RetryDelay)
	want("a delay", 2, 1)
	q.Add("b", put, Live)
	want("an event ends it", 3, 1)
	next := func() (it Item) {
		it, _ = q.Get(context.Background())
		return it
	}
	for range 2 { // a and b
		it = next()
		q.GiveBackFor(it, time.Hour)
		q.Done(it.Key)
	}
	want("what is to be looked at again was due already", 3, 1)
	q.Add(it.Key, put, Live)
	want("an event makes it due", 4, 1)
	it = next()
	q.GoAhead(it)
	q.Done(it.Key)
	want("what goes ahead was due already", 4, 1)
	it = next()
	q.GiveBackFor(it, time.Nanosecond)
	q.Done(it.Key)
	it = next()
	want("and what was looked at again", 4, 1)
	q.AddAfter(it.Key, retry, Background, time.Nanosecond, RetryDelay)
	q.Done(it.Key)
	next()
	want("a retry is added when its delay is over", 5, 2)
}
