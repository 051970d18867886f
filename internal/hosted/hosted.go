// Package hosted carries what a manager has to say to the controllers that it runs, in the context of their Run: any
// Run(ctx) may stand between the two.
//
// The rules: the manager's word only ever makes a controller stop earlier, or lead later. Without a manager all is as
// the controller says.
package hosted

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
}

type key struct{}

// With returns a context that carries a Host.
func With(ctx context.Context, host Host) context.Context { return context.WithValue(ctx, key{}, host) }

func of(ctx context.Context) Host {
	host, _ := ctx.Value(key{}).(Host)
	return host
}

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

// WhileElected calls apply whenever this process may lead, until ctx ends or apply fails. apply is to return when its
// context has ended. Without a host that elects, it is called once.
func WhileElected(ctx context.Context, apply func(context.Context) error) error {
	elect := of(ctx).Elect
	if elect == nil {
		return apply(ctx)
	}
	for {
		term, release, err := elect(ctx)
		if err != nil {
			return nil // stopped before this process could lead
		}
		err = apply(term)
		release()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}
