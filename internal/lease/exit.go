package lease

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Exit knows the leases that a process applies for, for the end of the process that cannot wait for its work. All
// methods may be called concurrently.
type Exit struct {
	mu       sync.Mutex
	electors map[*elector]struct{}
}

// exitDuration is what the others wait for a holder whose process ends at once. It is more than exitPatience. The lease
// is not freed, because reconciles that ignore the end of their context go on until the process has ended.
const exitDuration = 2 * time.Second

// exitPatience is how long Leave may take.
const exitPatience = time.Second

type exitKey struct{}

// WithExit returns a context under which Run makes its lease known to the Exit.
func WithExit(ctx context.Context) (context.Context, *Exit) {
	x := &Exit{electors: map[*elector]struct{}{}}
	return context.WithValue(ctx, exitKey{}, x), x
}

// Leave ends the terms of this process, and has the others wait no longer than two seconds for the leases that it
// holds. It takes a second at most; the process must end as soon as it returns. It returns how many leases the process
// held, and of how many this was written.
func (x *Exit) Leave() (held, left int) {
	ctx, cancel := context.WithTimeout(context.Background(), exitPatience)
	defer cancel()
	x.mu.Lock()
	var mu sync.Mutex
	var leaving sync.WaitGroup
	for e := range x.electors {
		leaving.Go(func() {
			holds, ok := e.leave(ctx)
			mu.Lock()
			defer mu.Unlock()
			if holds {
				held++
			}
			if ok {
				left++
			}
		})
	}
	x.mu.Unlock()
	leaving.Wait()
	return held, left
}

// know makes a lease known to the Exit of a context, if there is one, until forget.
func (e *elector) know(ctx context.Context) (forget func()) {
	x, _ := ctx.Value(exitKey{}).(*Exit)
	if x == nil {
		return func() {}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.electors[e] = struct{}{}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.electors, e)
	}
}

// leave ends the term, if this replica leads, and then writes the short duration: what hangs on its way to the end of
// the process works no more. Nothing is renewed or taken from now on.
func (e *elector) leave(ctx context.Context) (holds, written bool) {
	e.exiting.Store(true)
	term := e.term.Load()
	if term == nil {
		return false, false
	}
	term.lose(errExiting)
	for ctx.Err() == nil {
		value, revision, err := e.Store.Load(ctx)
		if err != nil {
			return true, false
		}
		r, err := decode(value)
		if err != nil || r.HolderIdentity != e.Identity {
			return err != nil, false
		}
		r.LeaseDurationSeconds = int(exitDuration / time.Second)
		bytes, err := encode(r)
		if err != nil {
			return true, false
		}
		if _, err = e.Store.Store(ctx, bytes, revision); !apierrors.IsConflict(err) {
			return true, err == nil
		}
		// A renewal that was under way came first.
	}
	return true, false
}
