package health

import (
	"context"
	"sync/atomic"
)

// Reporter reports one thing that is used often. While it works, a report that it does costs one atomic load. All
// methods may be called concurrently.
type Reporter struct {
	board   *Board
	name    string
	failing atomic.Bool
}

// Reporter returns the reporter of a name. No other reporter may have the name.
func (b *Board) Reporter(name string) *Reporter { return &Reporter{board: b, name: name} }

// Report reports why it does not work; nil if it does.
func (r *Reporter) Report(ctx context.Context, err error) {
	if err == nil {
		r.Healthy(ctx)
	} else {
		r.Failed(ctx, err)
	}
}

// Failed reports that it does not work.
func (r *Reporter) Failed(ctx context.Context, err error) {
	r.board.Change(ctx, r.name, func() error {
		r.failing.Store(true)
		return err
	})
}

// Healthy reports that it works.
func (r *Reporter) Healthy(ctx context.Context) {
	if !r.failing.Load() {
		return
	}
	r.board.Change(ctx, r.name, func() error {
		r.failing.Store(false)
		return nil
	})
}

// Leave takes off the board what is not reported here any more, see Board.Leave.
func (r *Reporter) Leave(ctx context.Context) {
	r.board.Leave(ctx, r.name, func() error {
		r.failing.Store(false)
		return nil
	})
}
