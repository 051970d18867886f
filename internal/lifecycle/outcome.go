package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Verdict is what a hand-out of a key came to; the engine settles each in one place.
type Verdict uint8

const (
	Nothing          Verdict = iota // nothing to do until something happens
	GivenBack                       // it came to nothing, or the term was over: due again for the same reasons
	LookAgain                       // due again after a while, for the reasons in ops; no failure
	Succeeded                       // the attempt, or a step of the teardown; due again if after is set
	Waiting                         // for an API, which makes it due again; no failure
	Failed                          // the attempt, or a step of the teardown where no attempt was made
	Terminal                        // parked until something happens: time alone does not wake the key
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
}

// Rests reports whether the key is not reconciled, and is not due again before something happens.
func (o *Outcome) Rests() bool {
	return o.Verdict == Nothing || o.Verdict == NotReconciled || o.Verdict == Malformed
}

// RecordWrite is a write of the key's record that is under way: the key is not done before it is answered. Next makes
// of the answer what the hand-out comes to. It may write, and waits for that: it submits no other write.
type RecordWrite struct {
	Answer func(context.Context) error
	Next   func(ctx context.Context, err error) Outcome
}

// Attempt is one call of the reconciler and what came of it.
type Attempt struct {
	Number     int                  // counts from 1; 0: the reconciler was not called
	Operations operation.Operations // as the reconciler was told
	Requeue    time.Duration        // due again after it, if positive
	Priority   *queue.Priority      // of the run that follows, if the reconciler says so
	Err        error
	Took       time.Duration
	NextDue    time.Time
	News       bool                 // that it failed, or how, is to be told
	Wrote      bool                 // through our clients or handles
	Pending    string               // what a helper waits for; the key is not reconciled yet
	Status     *entity.StatusChange // nil if none was set
	Waits      apisource.Waiter     // the error is no failure: the key has to wait for an API
	CutShort   bool                 // the error is no failure: the term was over
	Under      context.Context      // of what follows from it, within its term; nil if no observer is set
}

// Unfinished reports whether the key will be reconciled again for the same reasons.
func (a *Attempt) Unfinished() bool {
	return a.Err != nil && (a.Waits != nil || !IsTerminal(a.Err)) || a.Pending != ""
}

// PriorityAfter is that of the run which follows, where the reconciler does not say another one.
func (a *Attempt) PriorityAfter(unless queue.Priority) queue.Priority {
	if a.Priority != nil {
		return *a.Priority
	}
	return unless
}

// under is the context of what follows from an attempt.
func (a *Attempt) under(t *Term) context.Context {
	if a.Under == nil {
		return t.Ctx
	}
	return a.Under
}

// CutShort reports whether an error came because the term was over: its context had ended. Such an error says nothing
// about the primary, unless it is a panic.
func CutShort(t *Term, err error) bool {
	_, panicked := err.(*guard.Panic)
	return err != nil && t.Ctx.Err() != nil && !panicked
}

// OutcomeOf is the outcome of an attempt, as its error or its absence says. v is the primary as it was reconciled.
func OutcomeOf(t *Term, it queue.Item, v source.View, a Attempt) Outcome {
	a.CutShort = a.CutShort || CutShort(t, a.Err)
	o := Outcome{Attempt: a, Ops: it.Ops}
	switch {
	case a.Err == nil:
		o.Verdict, o.After, o.Ops = Succeeded, a.Requeue, 0
	case a.Waits != nil:
		o.Verdict = Waiting
	case a.CutShort:
		o.Verdict = GivenBack
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

// WaiterFor returns what a key has to wait for after an error; nil if the error is a failure.
func WaiterFor(apis *apisource.Set, key string, err error) apisource.Waiter {
	if err == nil || IsTerminal(err) {
		return nil
	}
	return apis.WaiterFor(key, err)
}

// awaitsName is the error of a key that wants a name which another's object has.
type awaitsName interface {
	error
	AwaitsName()
}

// OnlyAwaitsName reports whether err is that of a key which wants a name that another's object has, and nothing else
// was joined to it.
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

// awaitsAPI is what the condition says of a key that waits for an API. It is always the same. If it said why the API is
// away, the records of all keys would be written anew each time that it goes away. Stats and the log say why.
func awaitsAPI(kind string, away bool) string {
	if away {
		return record.WaitsFor + "the API of " + kind + ", which is away"
	}
	return record.WaitsFor + "a turn at the API of " + kind + ", whose rate is limited"
}

// ownedByOthers stands for the text of an error that names an owner.
const ownedByOthers = "a name that it wants is somebody else's; use another name"

// WithoutOwners returns message, which is the text of err, without what it says of the owners of names that somebody
// else has. names is true if err is about such a name.
func WithoutOwners(message string, err error) (without string, names bool) {
	if _, ok := err.(awaitsName); ok {
		without = strings.ReplaceAll(message, printable.Message(err.Error()), ownedByOthers)
		if without == message { // it was cut short, or is there in other words
			without = ownedByOthers
		}
		return without, true
	}
	switch within := err.(type) {
	case interface{ Unwrap() error }:
		return WithoutOwners(message, within.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range within.Unwrap() {
			one := false
			message, one = WithoutOwners(message, err)
			names = names || one
		}
	}
	return message, names
}

// failureOf is what the condition says of an attempt that failed. What has the name that a key wants may change from
// one attempt to the next, and then the condition is written again, as for all that a key waits for.
func failureOf(err error) string {
	if _, ok := errors.AsType[awaitsName](err); ok {
		return record.WaitsFor + "a name: " + err.Error()
	}
	return err.Error()
}
