package lease

import (
	"context"
	"sync"
)

// Election tells the controllers of a process whether it may lead.
type Election struct {
	mu      sync.Mutex
	term    context.Context // nil or over while this process does not lead
	began   chan struct{}   // closed when the next term begins
	members sync.WaitGroup  // of the term
	working int             // how many they are
}

// NewElection returns one for a process that does not lead yet.
func NewElection() *Election { return &Election{began: make(chan struct{})} }

// Serve is one term: it returns when the term is over and no controller works on in it.
func (e *Election) Serve(term context.Context) {
	e.mu.Lock()
	e.term = term
	close(e.began)
	e.began = make(chan struct{})
	e.mu.Unlock()
	<-term.Done()
	e.mu.Lock()
	e.term = nil // no member joins any more
	e.mu.Unlock()
	e.members.Wait()
}

// Elect waits for a term and joins it.
func (e *Election) Elect(ctx context.Context) (term context.Context, release func(), err error) {
	for {
		e.mu.Lock()
		began := e.began
		if e.term != nil && e.term.Err() == nil {
			e.members.Add(1)
			e.working++
			// It carries what ctx does, the logger and the host, and ends with either.
			member, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(e.term, func() { cancel(context.Canceled) })
			e.mu.Unlock()
			return member, func() { stop(); cancel(nil); e.left() }, nil
		}
		e.mu.Unlock()
		select {
		case <-began:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

func (e *Election) left() {
	e.mu.Lock()
	e.working--
	e.mu.Unlock()
	e.members.Done()
}

// Idle reports whether no controller works in a term. While one does, Serve does not return.
func (e *Election) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.working == 0
}
