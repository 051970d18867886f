package running

import (
	"context"
	"time"
)

// stuck is a reconcile that has run for too long.
type stuck struct {
	Run
	// stack is where its goroutine is, the innermost call first; see stackOf.
	stack string
}

// look is how often the table is looked at: what is stuck is to be known within two seconds.
const look = time.Second

// watch tells, until ctx ends, of each reconcile that has run for as long as after: once. Before that it tells how many
// there are, whenever that or the oldest of them has changed, with the oldest. tell may be nil.
func (t *Table) watch(ctx context.Context, after time.Duration, count func(n int, oldest Run), tell func(stuck)) {
	ticker := time.NewTicker(max(min(look, after/2), time.Millisecond))
	defer ticker.Stop()
	var before int
	var shown Run
	for {
		select {
		case <-ctx.Done():
			if before > 0 {
				count(0, Run{})
			}
			return
		case <-ticker.C:
		}
		n, news := t.since(time.Now().Add(-after))
		oldest := Run{}
		if n > 0 {
			oldest, _ = t.Longest() // another one if it has returned by now: then the next look mends it
		}
		if n != before || oldest != shown {
			count(n, oldest)
			before, shown = n, oldest
		}
		if len(news) == 0 || tell == nil {
			continue
		}
		stacks := dump()
		for _, r := range news {
			tell(stuck{Run: r, stack: stackOf(stacks, t.goroutineOf(r.Key))})
		}
	}
}
