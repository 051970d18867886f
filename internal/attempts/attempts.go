// Package attempts tells observers of reconciles: before each begins, and when it has ended.
//
// The rule: an observer sees and changes nothing. What it does wrong is logged, and the reconcile goes on. Without an
// observer nothing is allocated and no clock is read.
package attempts

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/operation"
	"k8s.io/klog/v2"
)

// Observer is told of each reconcile of a controller, also of those of a primary that is gone. Its methods are called
// concurrently for different keys, in the goroutine of the reconcile, which waits for them: they must return quickly.
// One that does not return shows as a reconcile that is stuck, with its stack. A panic is logged, and the reconcile
// goes on.
type Observer interface {
	// Begin is called just before the reconciler is. What it returns becomes the reconcile's context, so it has to be
	// ctx or a child of it; anything else is not taken, and logged.
	Begin(ctx context.Context, b Beginning) context.Context
	// End is called when the reconciler has returned or panicked, and with the context that Begin returned. That
	// context may have ended: for its values it is still good. If Begin panicked End is not called.
	End(ctx context.Context, e Ending)
}

// CauseTaker is an Observer that wants to know Beginning.Causes. Without one they are not kept.
type CauseTaker interface {
	Observer
	// TakesCauses is asked once, when the controller is made.
	TakesCauses() bool
}

// Cause is a message that made a key due, and that came with a trace.
type Cause = causes.Cause

// Beginning is a reconcile that is about to begin.
type Beginning struct {
	Controller string
	Kind       string // of the primary
	Key        string
	Operations operation.Operations // why it is reconciled
	Attempt    int                  // counts from 1; it goes up while attempts fail
	// Waited is for how long, since the first reason, or since the delay of a retry or requeue was over. It begins with
	// the term: what became due while another replica led has not waited for this one.
	Waited time.Duration
	// Causes are writes that made the key due and came with a trace, the newest last, if a CauseTaker asked for them.
	// They are the newest 16, and MoreCauses counts the others. An attempt that failed leaves them to the next. Writes
	// from before the controller has started, or does lead, are not among them, and neither are those that came while
	// the key was suspended, invalid, parked or held. Where thousands of keys wait the oldest lose theirs. Observers
	// share the slice: they may keep it, and not change it.
	Causes     []Cause
	MoreCauses int
}

// Ending is a reconcile that has ended.
type Ending struct {
	Key        string
	Operations operation.Operations
	Attempt    int
	Took       time.Duration
	// Err is what the reconciler returned, or its panic.
	Err error
	// Panicked tells that Err is a panic. Terminal tells that Err parks the key.
	Panicked, Terminal bool
	// Waits tells that Err is no failure: the key waits for an API that is away or busy, and then comes again.
	Waits bool
	// RequeueAfter is when the key is due again though nothing failed; 0 if it is not.
	RequeueAfter time.Duration
}

// Observers are those of one controller, the outermost first.
type Observers []Observer

// TakeCauses reports whether an observer wants to know causes.
func (all Observers) TakeCauses() bool {
	return slices.ContainsFunc(all, func(o Observer) bool {
		taker, ok := o.(CauseTaker)
		return ok && taker.TakesCauses()
	})
}

// Observed is one reconcile under observation. The zero value has no observers.
type Observed struct {
	observers Observers
	few       [2]context.Context // of the first observers, so that nothing is allocated for them; nil: it has not begun
	more      []context.Context
}

// Begin tells all observers, the first first, and returns the context of the reconcile.
func (all Observers) Begin(ctx context.Context, o *Observed, b Beginning) context.Context {
	o.observers = all
	for i, observer := range all {
		child := begin(ctx, observer, &b)
		if i < len(o.few) {
			o.few[i] = child
		} else {
			o.more = append(o.more, child)
		}
		if child != nil {
			ctx = child
		}
	}
	return ctx
}

// End tells all observers, the last first.
func (o *Observed) End(e *Ending) {
	for i := len(o.observers) - 1; i >= 0; i-- {
		if i < len(o.few) {
			end(o.few[i], o.observers[i], e)
		} else {
			end(o.more[i-len(o.few)], o.observers[i], e)
		}
	}
}

var errNoChild = errors.New("it returned a context that is no child of the one it was given; that one is used")

// begin returns nil if the observer panicked.
func begin(ctx context.Context, o Observer, b *Beginning) (child context.Context) {
	defer func() {
		if r := recover(); r != nil {
			child = nil
			failed(ctx, guard.Recovered(r))
		}
	}()
	child = o.Begin(ctx, *b)
	if child != ctx && (guard.IsNil(child) || child.Value(current.Key{}) != ctx.Value(current.Key{})) {
		failed(ctx, errNoChild)
		return ctx
	}
	return child
}

func end(ctx context.Context, o Observer, e *Ending) {
	if ctx == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			failed(ctx, guard.Recovered(r))
		}
	}()
	o.End(ctx, *e)
}

func failed(ctx context.Context, err error) {
	logger := foreign.Logger(klog.FromContext(ctx))
	logger.Error(err, "Callback failed, the reconcile goes on", "callback", "WithObserver")
}
