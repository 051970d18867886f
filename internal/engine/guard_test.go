package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nagi-runtime/nagi/internal/lease"
)

// TestNothingIsDeletedOnceTheClockSaysThatTheLeaseIsOver, though the context has not heard of it yet.
func TestNothingIsDeletedOnceTheClockSaysThatTheLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{}
		if err := e.leadsStill(t.Context()); err != nil {
			t.Fatalf("without a lease: %v", err)
		}
		e.leadership.won.Store(&lease.Term{}) // which is over
		term, end := context.WithCancelCause(t.Context())
		answered := make(chan error, 1)
		go func() { answered <- e.leadsStill(term) }()
		synctest.Wait()
		select {
		case err := <-answered:
			t.Errorf("after the lease: %v", err)
		default:
		}
		end(ErrLeaseLost)
		if err := <-answered; err != ErrLeaseLost {
			t.Errorf("after the term: %v", err)
		}
	})
}
