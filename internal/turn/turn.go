// Package turn is a lock for what waits while it holds it: for time, or for an answer over the network.
//
// A sync.Mutex is held for moments. Who waits for one cannot be told to stop, and stops the clock of a test in virtual
// time. Who waits for a Turn goes when its context ends.
package turn

import "context"

// Turn is held by one at a time. New makes one.
type Turn chan struct{}

// New returns a free turn.
func New() Turn { return make(Turn, 1) }

// Take waits until the turn is free, or returns the cause of the context's end. The caller has to Give it back if there
// is no error.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Give frees the turn.
func (t Turn) Give() { <-t }
