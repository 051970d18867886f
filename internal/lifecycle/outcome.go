package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Verdict is what a hand-out of a key came to; the engine settles each in one place.
type Verdict uint8

const (
	Nothing          Verdict = iota // nothing to do until something happens
	GivenBack                       // it came to nothing: due again at once, for the same reasons
	LookAgain                       // due again after a while, for the reasons in ops; no failure
	Succeeded                       // the attempt, or a step of the teardown; due again if after is set
	Waiting                         // for an API, which makes it due again; no failure
	Failed                          // the attempt, or a step of the teardown where no attempt was made
	Terminal                        // parked until the primary changes
	NotReconciled                   // the primary exists and is not to be reconciled, or its delete is held back
	DocumentReturned                // the document exists again, so the teardown ended early
	NothingOwed                     // the primary is gone: everything is forgotten
	TornDown                        // gone, and what was owed is done
	RecordFailed                    // its record could not be written
	StatusRefused                   // its record cannot take the status of the attempt
	Recorded                        // its record was written, with what came of the attempt
	Anchored                        // its anchor was written ahead: due again at once, before the backlog
	Malformed                       // no primary can have such a key
)

// Outcome says what a hand-out of a key came to. The zero value is nothing.
type Outcome struct {
	Verdict Verdict
	Attempt Attempt              // reported if the reconciler was called
	Err     error                // why it failed, where it was not the reconciler
	Where   string               // of a failed step: for the log
	Ops     operation.Operations // why it is due again
	Prio    queue.Priority       // of LookAgain
	After   time.Duration        // of LookAgain and Succeeded
	Parked  keytable.Parked      // of Terminal
	Unpark  bool                 // of RecordFailed: the record would have said that the key is parked
	Subject any                  // of Terminal: the object of the event; nil: no event
	Held    error                // what a teardown waits for: it was deleted and does not go
	Write   *RecordWrite         // under way: the key is not done before it is answered
}

// RecordWrite is a write of the key's record that is under way. Next makes of its answer what the hand-out comes to;
// without an answer to wait for it is called at once.
type RecordWrite struct {
	Answer func(context.Context) error
	Next   func(ctx context.Context, err error) Outcome
}

// Attempt is one call of the reconciler and what came of it.
type Attempt struct {
	Number     int                  // counts from 1; 0: the reconciler was not called
	Operations operation.Operations // as the reconciler was told
	Requeue    time.Duration        // due again after it, if positive
	Err        error
	Took       time.Duration
	NextDue    time.Time
	News       bool                 // that it failed, or how, is to be told
	Wrote      bool                 // through our clients or handles
	Pending    string               // what a helper waits for; the key is not reconciled yet
	Status     *entity.StatusChange // nil if none was set
	Waits      apisource.Waiter     // the error is no failure: the key has to wait for an API
}

// OutcomeOf is the outcome of an attempt, as its error or its absence says. v is the primary as it was reconciled.
func OutcomeOf(it queue.Item, v source.View, a Attempt) Outcome {
	o := Outcome{Attempt: a, Ops: it.Ops}
	switch {
	case a.Err == nil:
		o.Verdict, o.After, o.Ops = Succeeded, a.Requeue, 0
	case a.Waits != nil:
		o.Verdict = Waiting
	case IsTerminal(a.Err):
		o.Verdict, o.Parked = Terminal, keytable.Parked{Presence: v.Presence, Object: v.Object}
		if v.Object != nil {
			o.Subject = v.Object
		}
	default:
		o.Verdict = Failed
	}
	return o
}

// awaitsName is the error of a key that wants a name which somebody else has.
type awaitsName interface {
	error
	AwaitsName()
}

// OnlyAwaitsName reports whether err is that of a key which wants a name that somebody else has, and nothing else was
// joined to it.
func OnlyAwaitsName(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs := joined.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !OnlyAwaitsName(err) })
	}
	if _, ok := err.(awaitsName); ok {
		return true
	}
	within := errors.Unwrap(err)
	return within != nil && OnlyAwaitsName(within)
}

// failureOf is what the condition says of an attempt that failed. What has the name that a key wants may change from
// one attempt to the next, and then the condition is written again, as for all that a key waits for.
func failureOf(err error) string {
	if _, ok := errors.AsType[awaitsName](err); ok {
		return record.WaitsFor + "a name: " + err.Error()
	}
	return err.Error()
}
