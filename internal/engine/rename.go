package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/source"
)

const (
	// renames is how many objects are renamed at once.
	renames = 16
	// renamePatience is how long one object may take.
	renamePatience = 5 * time.Second
	// mostFailures is after how many failures in one source a pass leaves the rest of it: each may take its time, and
	// the next one would fail likewise.
	mostFailures = 50
)

// rename writes the new kind into objects. It returns how they failed, and how many it did not come to before ctx
// ended.
func rename(ctx context.Context, found []*former) (failed []error, late int) {
	work := make(chan *former)
	var workers sync.WaitGroup
	var mu sync.Mutex
	failures := map[source.Owned]int{}
	try := func(f *former) {
		one, cancel := context.WithTimeout(ctx, renamePatience)
		defer cancel()
		err := f.in.Rewrite(one, f.obj, f.write)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil || errors.Is(err, errRenamed):
			f.done = true
		case ctx.Err() != nil:
			late++
		default:
			failures[f.in]++
			failed = append(failed, fmt.Errorf("%s: %q: %w", f.in, source.ObjectKey(f.obj), err))
		}
	}
	for range min(renames, len(found)) {
		workers.Go(func() {
			for f := range work {
				try(f)
			}
		})
	}
	for _, f := range found {
		mu.Lock()
		skipped := ctx.Err() == nil && failures[f.in] >= mostFailures
		if skipped {
			failed = append(failed, fmt.Errorf("%s: %d others failed", f.in, mostFailures))
		} else if ctx.Err() != nil {
			late++
			skipped = true
		}
		mu.Unlock()
		if !skipped {
			work <- f
		}
	}
	close(work)
	workers.Wait()
	return failed, late
}
