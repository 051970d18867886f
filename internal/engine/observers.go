// Observers of reconciles are told before each begins, and when it has ended.
//
// The rule: an observer sees and changes nothing. What it does wrong is logged, and the reconcile goes on. Without an
// observer nothing is allocated and no clock is read.

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"k8s.io/klog/v2"
)

// AttemptObserver is told of each reconcile of a controller, also of those of a primary that is gone. Its methods are
// called concurrently for different keys, in the goroutine of the reconcile, which waits for them: they must return
// quickly. One that does not return shows as a reconcile that is stuck, with its stack. A panic is logged, and the
// reconcile goes on.
type AttemptObserver interface {
	// Begin is called just before the reconciler is. What it returns becomes the reconcile's context, so it has to be
	// ctx or a child of it; anything else is not taken, and logged.
	Begin(ctx context.Context, b Beginning) context.Context
	// End is called when the reconciler has returned or panicked, and with the context that Begin returned. That
	// context may have ended: for its values it is still good. If Begin panicked End is not called.
	End(ctx context.Context, e Ending)
}

// CauseTaker is an Observer that wants to know Beginning.Causes. Without one they are not kept.
type CauseTaker interface {
	AttemptObserver
	// TakesCauses is asked once, when the controller is made.
	TakesCauses() bool
}

// RunObserver is an Observer that is told when the controller's Run begins.
type RunObserver interface {
	AttemptObserver
	// BeginRun is called once, with Run's context. What it returns becomes the parent of all contexts of the
	// controller, so it has to be ctx or a child of it.
	BeginRun(ctx context.Context) context.Context
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
	At         time.Time            // now
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
	// CutShort tells that Err is no failure: the reconcile's context had ended, because of a stop whose grace period
	// was over or because the lease was lost. Who leads next reconciles the key again.
	CutShort bool
	// RequeueAfter is when the key is due again though nothing failed; 0 if it is not.
	RequeueAfter time.Duration
}

// AttemptObservers are those of one controller, the outermost first.
type AttemptObservers []AttemptObserver

// TakeCauses reports whether an observer wants to know causes.
func (all AttemptObservers) TakeCauses() bool {
	return slices.ContainsFunc(all, func(o AttemptObserver) bool {
		taker, ok := o.(CauseTaker)
		return ok && taker.TakesCauses()
	})
}

// BeginRun tells those that want to know that Run begins, the first first, and returns its context.
func (all AttemptObservers) BeginRun(ctx context.Context) context.Context {
	for _, o := range all {
		if wants, ok := o.(RunObserver); ok {
			ctx = beginIn(ctx, wants.BeginRun)
		}
	}
	return ctx
}

// beginIn returns what f makes of ctx; ctx itself if f panics, or returns what is no child of it.
func beginIn(ctx context.Context, f func(context.Context) context.Context) (child context.Context) {
	defer func() {
		if r := recover(); r != nil {
			child = ctx
			failed(ctx, guard.Recovered(r))
		}
	}()
	marked := context.WithValue(ctx, mark{}, &ctx)
	child = f(marked)
	if child == marked {
		return ctx
	}
	if guard.IsNil(child) || child.Value(mark{}) != &ctx {
		failed(ctx, errNoChild)
		return ctx
	}
	return child
}

// mark is how a child of a context is known.
type mark struct{}

// ObservedAttempt is one reconcile under observation. The zero value has no observers.
type ObservedAttempt struct {
	observers AttemptObservers
	few       [2]context.Context // of the first observers, so that nothing is allocated for them; nil: it has not begun
	more      []context.Context
}

// Begin tells all observers, the first first, and returns the context of the reconcile.
func (all AttemptObservers) Begin(ctx context.Context, o *ObservedAttempt, b Beginning) context.Context {
	o.observers = all
	for next := 0; next < len(all); {
		ctx, next = o.begin(ctx, next, &b)
	}
	return ctx
}

// begin tells the observers from that one on, until one panics, and returns which is next.
func (o *ObservedAttempt) begin(ctx context.Context, from int, b *Beginning) (now context.Context, next int) {
	now, next = ctx, from
	defer func() {
		if r := recover(); r != nil {
			failed(now, guard.Recovered(r))
			o.note(next, nil)
			next++
		}
	}()
	for ; next < len(o.observers); next++ {
		child := o.observers[next].Begin(now, *b)
		if child != now && (guard.IsNil(child) || child.Value(reconcilectx.Key{}) != now.Value(reconcilectx.Key{})) {
			failed(now, errNoChild)
			child = now
		}
		o.note(next, child)
		now = child
	}
	return now, next
}

// note keeps the context that an observer returned; nil if it panicked.
func (o *ObservedAttempt) note(observer int, child context.Context) {
	if observer < len(o.few) {
		o.few[observer] = child
	} else {
		o.more = append(o.more, child)
	}
}

// End tells all observers, the last first.
func (o *ObservedAttempt) End(e *Ending) {
	for next := len(o.observers) - 1; next >= 0; {
		next = o.end(next, e)
	}
}

// end tells the observers from that one back to the first, until one panics, and returns which is next.
func (o *ObservedAttempt) end(from int, e *Ending) (next int) {
	next = from
	defer func() {
		if r := recover(); r != nil {
			failed(o.given(next), guard.Recovered(r))
			next--
		}
	}()
	for ; next >= 0; next-- {
		if ctx := o.given(next); ctx != nil {
			o.observers[next].End(ctx, *e)
		}
	}
	return next
}

// given is the context that an observer returned; nil if it panicked.
func (o *ObservedAttempt) given(observer int) context.Context {
	if observer < len(o.few) {
		return o.few[observer]
	}
	return o.more[observer-len(o.few)]
}

var errNoChild = errors.New("it returned a context that is no child of the one it was given; that one is used")

func failed(ctx context.Context, err error) {
	logger := printable.Logger(klog.FromContext(ctx))
	logger.Error(err, "Callback failed, the controller goes on", "callback", "WithObserver")
}
