package engine

import (
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/failures"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// tellAttempt logs an attempt that failed. What is no news, see package failures, is logged at verbosity 1.
func (e *Engine) tellAttempt(t *lifecycle.Term, it queue.Item, a *lifecycle.Attempt) {
	if t.Ctx.Err() != nil {
		return // the error says nothing about the primary
	}
	values := []any{"key", it.Key, "operations", a.Operations, "attempt", a.Number}
	if lifecycle.IsTerminal(a.Err) {
		values = append(values, "parked", true)
	} else if !a.NextDue.IsZero() {
		values = append(values, "nextDue", a.NextDue)
	}
	if !a.News {
		t.Logger.V(1).Info("Reconcile failed again", append(values, "err", a.Err)...)
		return
	}
	t.Logger.Error(a.Err, "Reconcile failed", values...)
	if lifecycle.IsTerminal(a.Err) {
		return // which has an event of its own
	}
	reason, message := failures.Reason(a.Err)
	e.event(e.subject(it.Key), eventWarning, reason, fmt.Sprintf("attempt %d: %s; next attempt in %v",
		a.Number, message, time.Until(a.NextDue).Round(time.Millisecond)))
}

// tellTeardown logs a step of a teardown that failed, and makes an event of it.
func (e *Engine) tellTeardown(
	t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome, failed int, after time.Duration,
) {
	if t.Ctx.Err() != nil {
		return
	}
	values := []any{"key", it.Key, "noticed", o.Where, "attempt", failed, "after", after}
	if !o.Attempt.News {
		t.Logger.V(1).Info("Teardown does not go on, will try again", append(values, "err", o.Attempt.Err)...)
		return
	}
	t.Logger.Error(o.Attempt.Err, "Teardown does not go on, will try again", values...)
	_, message := failures.Reason(o.Attempt.Err)
	e.event(e.subject(it.Key), eventWarning, failures.ReasonTeardown, fmt.Sprintf(
		"attempt %d: %s: %s; next attempt in %v", failed, o.Where, message, after.Round(time.Millisecond)))
}

// tellRepeated logs a failure that has its own count: as an error each time that the count has doubled.
func tellRepeated(t *lifecycle.Term, failed int, err error, message string, values ...any) {
	values = append(values, "attempt", failed)
	if failures.Doubled(failed) {
		t.Logger.WithCallDepth(1).Error(err, message, values...)
		return
	}
	t.Logger.WithCallDepth(1).V(1).Info(message, append(values, "err", err)...)
}

// subject is the object of an event about a primary, which may be gone.
func (e *Engine) subject(key string) any {
	v := e.primary.View(key)
	if deleted := e.keys.Of(key).Deleted; v.Object == nil && deleted != nil {
		v.Object = deleted.Object
	}
	return e.regarding(key, v)
}
