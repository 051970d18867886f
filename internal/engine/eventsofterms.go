package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// The reasons of events about the lease.
const (
	reasonWon  = "LeaseWon"
	reasonLost = "LeaseLost"
)

// stuckRecorder is how long the end of a term waits for events about it. A recorder that does not return shows as a
// callback that is stuck.
const stuckRecorder = time.Second

// Terms returns lead with an event about the controller when a term begins, and one at once when the lease was lost,
// which is when a term ends before ctx does. Each term has the same text, so that a lease that goes to and fro is one
// event with a count. The work of a term does not wait for the recorder.
func (e *Events) Terms(
	ctx context.Context, identity string, lead func(context.Context, *lease.Term),
) func(context.Context, *lease.Term) {
	return func(term context.Context, won *lease.Term) {
		told := make(chan struct{})
		go func() {
			defer close(told)
			e.Self(EventNormal, reasonWon, identity+" holds the lease and works")
			<-term.Done()
			if ctx.Err() == nil {
				e.Self(EventWarning, reasonLost,
					identity+" works no more: "+printable.Message(context.Cause(term).Error()))
			}
		}()
		lead(term, won) // it returns only when the term is over
		select {
		case <-told:
		case <-time.After(stuckRecorder):
		}
	}
}
