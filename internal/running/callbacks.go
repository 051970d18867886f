package running

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
)

// problemCallback is the name under which callbacks that do not return are degraded.
const problemCallback = "stuck callback"

// Callbacks are the user's callbacks under way. The zero value is ready; its methods may be called concurrently.
type Callbacks struct{ table Table }

// Call calls f, the callback with that name.
func (c *Callbacks) Call(name string, f func()) {
	run := c.table.Begin(name, time.Now(), 1)
	defer c.table.End(run)
	f()
}

type callbacksKey struct{}

// Into returns a context under which CallIn calls as c does.
func (c *Callbacks) Into(ctx context.Context) context.Context {
	return context.WithValue(ctx, callbacksKey{}, c)
}

// CallIn calls f, the callback with that name, of a caller who does not know whose the context is.
func CallIn(ctx context.Context, name string, f func()) {
	if c, ok := ctx.Value(callbacksKey{}).(*Callbacks); ok {
		c.Call(name, f)
		return
	}
	f()
}

// Watch degrades, until ctx ends, what waits for a callback that has run for as long as after; 0: nothing.
func (c *Callbacks) Watch(ctx context.Context, after time.Duration, board *health.Board) {
	if after <= 0 {
		return
	}
	c.table.watch(ctx, after, func(n int, oldest Run) {
		if n == 0 {
			board.Set(ctx, problemCallback, nil)
			return
		}
		err := fmt.Errorf("%d callbacks have not returned within %v, the oldest that of %s; who called it stands "+
			"still, which may be a worker. A callback must not block: hand over what takes time, and return",
			n, after, oldest.Key)
		board.Set(ctx, problemCallback, &health.Problem{Since: oldest.Since, Err: err})
	}, nil)
}
