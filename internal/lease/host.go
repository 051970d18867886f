// What a manager has to say to the controllers that it runs is in the context of their Run: any Run(ctx) may stand
// between the two.
//
// The rules: the manager's word only ever makes a controller stop earlier, or lead later, and why it does not lead
// shows in its health. Without a manager all is as the controller says.

package lease

import (
	"context"
	"time"
)

// Host is what a manager says. The zero Host says nothing.
type Host struct {
	// Grace ends when running reconciles have had their time after a stop. It may be nil.
	Grace context.Context
	// Elect waits until this process may lead, and returns a context that ends when it may no longer. release says that
	// nothing of that term runs any more. The error is that of ctx. It may be nil.
	Elect func(ctx context.Context) (term context.Context, release func(), err error)
	// Lease is what is known of the lease for which Elect waits. It may be nil.
	Lease *Lease
}

// Candidate is a controller that leads while it may. Its functions must not call back.
type Candidate struct {
	// Apply is called whenever this process may lead. It returns when its context has ended.
	Apply func(ctx context.Context) error
	// Health is told what does not work, by name; nil if it works again. The host logs it.
	Health func(ctx context.Context, name string, err error)
	// Holder is told who holds the lease of the process, while this process waits for it.
	Holder func(identity string)
}

type hostedKey struct{}

// With returns a context that carries a Host.
func With(ctx context.Context, host Host) context.Context {
	return context.WithValue(ctx, hostedKey{}, host)
}

func of(ctx context.Context) Host {
	host, _ := ctx.Value(hostedKey{}).(Host)
	return host
}

// IsHosted reports whether a host elects: then it tells when this process leads, with all that it runs.
func IsHosted(ctx context.Context) bool { return of(ctx).Elect != nil }

// Grace returns a context that ends when running reconciles have had their time: after the controller's own period, if
// that is not negative, or when the host says so.
func Grace(ctx context.Context, period time.Duration) (context.Context, context.CancelFunc) {
	grace := of(ctx).Grace
	if grace == nil {
		grace = context.Background()
	}
	if period < 0 {
		return context.WithCancel(grace)
	}
	return context.WithTimeout(grace, period)
}

// WhileElected calls c.Apply whenever this process may lead, until ctx ends or it fails. Without a host that elects, it
// is called once. Meanwhile c is told how the lease of the process is doing.
func WhileElected(ctx context.Context, c Candidate) error {
	host := of(ctx)
	if host.Elect == nil {
		return c.Apply(ctx)
	}
	m, leave := host.Lease.join(ctx, c)
	defer leave()
	for {
		host.Lease.waiting(m, true)
		term, release, err := host.Elect(ctx)
		if err != nil {
			return nil // stopped before this process could lead
		}
		host.Lease.waiting(m, false)
		err = c.Apply(term)
		release()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}
