package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
)

// deadlines are how the grace period of a stop is spent. It holds for the whole: a reconcile that takes all of it would
// leave nothing for the events that it recorded.
type deadlines struct {
	// Cancel ends after four fifths: the contexts of reconciles end.
	Cancel context.Context
	// Leave ends after nine tenths: what has not returned is left behind.
	Leave context.Context
	// end ends with the grace period.
	end context.Context

	cancels []context.CancelFunc
}

// lastPatience is how long each step of the end may take, within the grace period. With a server that is away, the
// sending of events would take all of it.
const lastPatience = 5 * time.Second

var (
	errGraceOver    = errors.New("the grace period is over")
	errLastPatience = fmt.Errorf("it took more than %v", lastPatience)
)

// newDeadlines starts them. A negative grace period has no limit; what comes last is bounded all the same, see Last.
func newDeadlines(grace time.Duration) *deadlines {
	d := &deadlines{}
	if grace < 0 {
		d.Cancel, d.Leave, d.end = context.Background(), context.Background(), context.Background()
		return d
	}
	d.Cancel, d.Leave, d.end = d.after(cancelAfter(grace)), d.after(grace*9/10), d.after(grace)
	return d
}

// cancelAfter is the part of a grace period after which the contexts of reconciles end.
func cancelAfter(grace time.Duration) time.Duration { return grace * 8 / 10 }

func (d *deadlines) after(period time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), period, errGraceOver)
	d.cancels = append(d.cancels, cancel)
	return ctx
}

// BoundBy lets the end come with a context.
func (d *deadlines) BoundBy(ctx context.Context) {
	end, cancel := context.WithCancelCause(d.end)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	d.cancels = append(d.cancels, func() { stop(); cancel(nil) })
	d.end = end
}

// Stop gives back what they hold.
func (d *deadlines) Stop() {
	for _, cancel := range d.cancels {
		cancel()
	}
}

// Last calls something that belongs to the end, and leaves it behind if it does not return in time. Errors have its
// name.
func (d *deadlines) Last(name string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(d.end, lastPatience, errLastPatience)
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- guard.Call(func() error { return f(ctx) }) }()
	select {
	case err := <-returned:
		return namedError(name, err)
	case <-ctx.Done():
	}
	// What heeds its context returns now, with a better error.
	moment := time.NewTimer(returnMoment)
	defer moment.Stop()
	select {
	case err := <-returned:
		return namedError(name, err)
	case <-moment.C:
		return namedError(name, fmt.Errorf("it did not return and was left behind: %w", context.Cause(ctx)))
	}
}

// returnMoment is what a function may take to return when its context has ended.
const returnMoment = 200 * time.Millisecond

func namedError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
