package controller

import (
	"math"
	"time"

	"github.com/nagi-runtime/nagi/internal/queue"
)

// Priority says which of the keys that wait for a worker goes first: one of a higher priority. Any int is one, as in
// controller-runtime, and its zero value is that of a live change. Among keys of one priority the first to come is the
// first to go, or their groups take turns ([WithFairness]).
//
// A key that is made due several times before it runs has the highest of the priorities that it was given, and what it
// had waited goes on counting. Whatever its priority, no key starves: one hand-out in eight is that of the key that
// waits for longest.
//
// Beyond 32 bits all priorities are the same.
type Priority = int

// The priorities that the runtime gives. Between and beyond them any others may be used.
const (
	// PriorityLive is that of live changes of primaries, and of [Controller.Enqueue].
	PriorityLive Priority = 0
	// PrioritySecondary is that of live changes of what a primary owns or reads.
	PrioritySecondary Priority = -10
	// PriorityBackground is that of the initial list, of resyncs, and of RequeueAfter.
	PriorityBackground Priority = -100
)

func queuePriority(p Priority) queue.Priority {
	return queue.Priority(min(max(int64(p), math.MinInt32), math.MaxInt32))
}

// EnqueueOptions say how [Controller.EnqueueWith] makes a key due. The zero value is that of Enqueue.
type EnqueueOptions struct {
	// Priority is that of the run, unless something of a higher one makes the key due before. A retry keeps it.
	Priority Priority
	// After delays it, as with EnqueueAfter.
	After time.Duration
}

// EnqueueWith is [Controller.Enqueue] with a priority, a delay, or both: a migration that touches all primaries, say,
// gives PriorityBackground, so that it does not delay live changes.
func (c *Controller[T]) EnqueueWith(key string, op Operation, opts EnqueueOptions) {
	c.engine.EnqueueWith(key, op, queuePriority(opts.Priority), opts.After)
}
