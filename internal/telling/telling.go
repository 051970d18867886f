// Package telling tells, in the log and as events, which attempts and steps of teardowns fail.
//
// The rule: what package failures says is news is an error in the log and an event; the rest is logged at verbosity 1.
// What failed because a term is over says nothing about a primary, and is not told.
package telling

import (
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/failures"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
)

// Teller tells of the failures of a controller's keys.
type Teller struct {
	// Warn records a warning event about the primary of a key.
	Warn func(key, reason, message string)
	// HasTold reports whether an event has told already which object a key wanted and did not get.
	HasTold func(key string) bool
}

// Attempt tells of an attempt that failed.
func (e Teller) Attempt(t *lifecycle.Term, key string, a *lifecycle.Attempt) {
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
	t.Logger.Error(a.Err, "Reconcile failed", values...)
	if lifecycle.IsTerminal(a.Err) || lifecycle.OnlyAwaitsName(a.Err) && e.HasTold(key) {
		return // which has an event of its own
	}
	reason, message := failures.Reason(a.Err)
	e.Warn(key, reason, fmt.Sprintf("attempt %d: %s; next attempt in %v",
		a.Number, message, time.Until(a.NextDue).Round(time.Millisecond)))
}

// Teardown tells of a step of a teardown that failed, for the so-many'th time.
func (e Teller) Teardown(
	t *lifecycle.Term, key string, o *lifecycle.Outcome, failed int, after time.Duration,
) {
	if t.Ctx.Err() != nil {
		return
	}
	values := []any{"key", key, "noticed", o.Where, "attempt", failed, "after", after}
	if !o.Attempt.News {
		t.Logger.V(1).Info("Teardown does not go on, will try again", append(values, "err", o.Attempt.Err)...)
		return
	}
	t.Logger.Error(o.Attempt.Err, "Teardown does not go on, will try again", values...)
	_, message := failures.Reason(o.Attempt.Err)
	e.Warn(key, failures.ReasonTeardown, fmt.Sprintf(
		"attempt %d: %s: %s; next attempt in %v", failed, o.Where, message, after.Round(time.Millisecond)))
}

// Repeated logs a failure that has its own count: as an error each time that the count has doubled.
func Repeated(t *lifecycle.Term, failed int, err error, message string, values ...any) {
	values = append(values, "attempt", failed)
	if failures.Doubled(failed) {
		t.Logger.WithCallDepth(1).Error(err, message, values...)
		return
	}
	t.Logger.WithCallDepth(1).V(1).Info(message, append(values, "err", err)...)
}
