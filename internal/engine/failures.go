// Which attempts and steps of teardowns fail is told in the log and as events.
//
// The rule: what package notify says is news is an error in the log and an event; the rest is logged at verbosity 1.
// What failed because a term is over says nothing about a primary, and is not told.

package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Reasons of the events about attempts that failed.
const (
	reasonFailed   = "ReconcileFailed"
	reasonPanicked = "Panicked"
	reasonTeardown = "TeardownFailed"
)

// failureOf is the reason of the event about an error of a reconcile. The message is the error's, without a stack.
func failureOf(err error) (reason, message string) {
	if panicked, ok := errors.AsType[*guard.Panic](err); ok {
		return reasonPanicked, printable.Message(panicked.Message())
	}
	return reasonFailed, printable.Message(printable.Error(err).Error())
}

// tellAttempt tells of an attempt that failed.
func (e *Engine) tellAttempt(t *lifecycle.Term, key string, a *lifecycle.Attempt) {
	if t.Ctx.Err() != nil {
		return
	}
	values := []any{"key", key, "operations", a.Operations, "attempt", a.Number}
	if lifecycle.IsTerminal(a.Err) {
		values = append(values, "parked", true)
	} else if !a.NextDue.IsZero() {
		values = append(values, "nextDue", a.NextDue)
	}
	if !a.News {
		t.Logger.V(1).Info("Reconcile failed again", append(values, "err", a.Err)...)
		return
	}
	if e.isTold(a.Err) {
		t.Logger.V(1).Info("Reconcile failed for a right that is missing", append(values, "err", a.Err)...)
	} else {
		t.Logger.Error(a.Err, "Reconcile failed", values...)
	}
	if lifecycle.IsTerminal(a.Err) || lifecycle.OnlyAwaitsName(a.Err) && e.keys.HasTold(key) {
		return // which has an event of its own
	}
	reason, message := failureOf(a.Err)
	e.warn(key, reason, fmt.Sprintf("attempt %d: %s; next attempt in %v",
		a.Number, message, time.Until(a.NextDue).Round(time.Millisecond)))
}

// tellTeardown tells of a step of a teardown that failed, for the nth time.
func (e *Engine) tellTeardown(t *lifecycle.Term, key string, o *lifecycle.Outcome, nth int, after time.Duration) {
	if t.Ctx.Err() != nil {
		return
	}
	values := []any{"key", key, "noticed", o.Where, "attempt", nth, "after", after}
	if !o.Attempt.News {
		t.Logger.V(1).Info("Teardown does not go on, will try again", append(values, "err", o.Attempt.Err)...)
		return
	}
	t.Logger.Error(o.Attempt.Err, "Teardown does not go on, will try again", values...)
	_, message := failureOf(o.Attempt.Err)
	e.warn(key, reasonTeardown, fmt.Sprintf(
		"attempt %d: %s: %s; next attempt in %v", nth, o.Where, message, after.Round(time.Millisecond)))
}

// tellRepeated logs a failure that has its own count: as an error each time that the count has doubled.
func tellRepeated(t *lifecycle.Term, nth int, err error, message string, values ...any) {
	values = append(values, "attempt", nth)
	if notify.Doubled(nth) {
		t.Logger.WithCallDepth(1).Error(err, message, values...)
		return
	}
	t.Logger.WithCallDepth(1).V(1).Info(message, append(values, "err", err)...)
}
