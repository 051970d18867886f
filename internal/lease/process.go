package lease

import (
	"context"
	"sync"
)

// Lease is what is known of the lease of the process, for the controllers that wait for it. All methods may be called
// concurrently.
type Lease struct {
	name string // as health shows it

	mu      sync.Mutex
	err     error  // why it cannot be read or written
	holder  string // who held it when it was read last
	members map[*member]struct{}
}

// member is a controller that is told.
type member struct {
	Candidate
	ctx   context.Context
	waits bool // for the lease of the process; else the controller's own tells who leads
}

// NewLease returns a lease of which nothing is known. name is what health calls it.
func NewLease(name string) *Lease { return &Lease{name: name, members: map[*member]struct{}{}} }

// Report is told why the lease cannot be read or written; nil if it can.
func (l *Lease) Report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.err == nil {
		return
	}
	l.err = err
	for m := range l.members {
		m.Health(m.ctx, l.name, err)
	}
}

// Held is told who holds the lease; "" if no process does.
func (l *Lease) Held(by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = by
	for m := range l.members {
		l.tellHolder(m)
	}
}

func (l *Lease) tellHolder(m *member) {
	if m.waits {
		m.Holder(l.holder)
	}
}

// join has a controller told what is known, and what changes, until leave. Then it is told no more. A nil Lease knows
// nothing.
func (l *Lease) join(ctx context.Context, c Candidate) (m *member, leave func()) {
	m = &member{Candidate: c, ctx: ctx}
	if l == nil {
		return m, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members[m] = struct{}{}
	if l.err != nil {
		c.Health(ctx, l.name, l.err)
	}
	return m, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.members, m)
	}
}

// waiting says whether a controller waits for the lease of the process.
func (l *Lease) waiting(m *member, waits bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.waits = waits
	l.tellHolder(m)
}
