package controller

import (
	"errors"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
)

// Observer is told of each reconcile; see WithObserver. Its methods:
//
//	// Begin is called just before the reconciler is. What it returns becomes the reconcile's context, so it has to be
//	// ctx or a child of it; anything else is not taken, and logged.
//	Begin(ctx context.Context, b Beginning) context.Context
//	// End is called when the reconciler has returned or panicked, and with the context that Begin returned. That
//	// context may have ended: for its values it is still good. If Begin panicked End is not called.
//	End(ctx context.Context, e Ending)
type Observer = engine.AttemptObserver

// Beginning is a reconcile that is about to begin. Its fields:
//
//	Controller, Kind, Key string     // the kind is the primary's
//	Operations            Operations // why it is reconciled
//	Attempt               int        // counts from 1; it goes up while attempts fail
//	At                    time.Time  // now
//	// For how long, since the first reason, or the end of the delay of a retry or requeue. It begins with the term.
//	Waited time.Duration
//	// The newest 16 writes that made the key due and came with a trace, the newest last, if a CauseTaker asked for
//	// them; MoreCauses counts the others. An attempt that failed leaves them to the next. Observers share the slice:
//	// they may keep it, and not change it.
//	Causes     []Cause
//	MoreCauses int
type Beginning = engine.Beginning

// Ending is a reconcile that has ended. Its fields:
//
//	Key        string
//	Operations Operations
//	Attempt    int
//	Took       time.Duration
//	Err        error // what the reconciler returned, or its panic
//	Panicked   bool  // Err is a panic
//	Terminal   bool  // Err parks the key
//	Waits      bool  // Err is no failure: the key waits for an API that is away or busy, and then comes again
//	// Err is no failure: the reconcile's context had ended, because of a stop whose grace period was over or because
//	// the lease was lost. Who leads next reconciles the key again.
//	CutShort     bool
//	RequeueAfter time.Duration // when the key is due again though nothing failed; 0 if it is not
type Ending = engine.Ending

// Cause is a message that made a key due, and that came with a trace: its Bucket, Key (as in NATS) and Revision, and
// its headers TraceParent and TraceState. They are bounded; everybody who may write the key can make them up.
type Cause = engine.Cause

// CauseTaker is an Observer that wants to know Beginning.Causes. Without one they are not kept. Its TakesCauses() bool
// is asked once, when the controller is made.
type CauseTaker = engine.CauseTaker

// RunObserver is an Observer that is told when the controller's Run begins: its BeginRun(ctx) is called once, with the
// context of Run. What it returns becomes the parent of all contexts of the controller, so it has to be ctx or a child
// of it.
type RunObserver = engine.RunObserver

// Attacher is an Observer that New tells whom it observes: the controller's name, and how to read its Stats.
type Attacher interface {
	Observer
	Attach(name string, stats func() Stats)
}

// WithObserver tells o of each reconcile, also of those of a primary that is gone. It may be given several times: the
// context of the first is the parent of that of the next. Begin and End must return quickly, since a worker waits for
// them.
func WithObserver(o Observer) Option {
	return func(opts *engine.Options) error {
		if guard.IsNil(o) {
			return errors.New("WithObserver(nil): an observer is needed; leave the option away instead")
		}
		opts.Observers = append(opts.Observers, o)
		return nil
	}
}
