package page

import (
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// attempt is one of the attempts at a key that are known: the one under way, the last that failed, with those in a row
// before it, and the last success.
type attempt struct {
	Outcome string
	Bad     bool
	Running bool
	At      time.Time // when it began, first failed, or succeeded
	Took    time.Duration
	Number  string
	Message string
	By      string // which controller, or its record
}

// attemptsOf are what controllers say of their attempts, the latest first. Of one that does not answer it is what the
// record says.
func attemptsOf(asked []why, w *writing) (all []attempt) {
	unanswered := len(asked) == 0
	for i := range asked {
		says := &asked[i]
		if says.Err != "" {
			unanswered = true
			continue
		}
		if !says.RunningSince.IsZero() {
			one := attempt{Outcome: "under way", Running: true, At: says.RunningSince, By: says.Controller}
			if says.Attempt > 0 {
				one.Number = fmt.Sprintf("attempt %d", says.Attempt)
			}
			all = append(all, one)
		}
		if says.Parked || says.Failures > 0 || says.Error != "" {
			one := attempt{
				Outcome: "failed", Bad: true, At: says.FailingSince, Message: says.Error, By: says.Controller,
			}
			if says.Parked {
				one.Outcome = "failed for good"
			}
			if says.Failures > 0 {
				one.Number = fmt.Sprintf("%d in a row", says.Failures)
			}
			all = append(all, one)
		}
		if says.ReconciledRevision != 0 {
			all = append(all, attempt{
				Outcome: "succeeded", At: says.ReconciledAt, Took: says.Took,
				Message: fmt.Sprintf("Revision %d", says.ReconciledRevision), By: says.Controller,
			})
		}
	}
	if unanswered {
		all = append(all, attemptOf(w)...)
	}
	return all
}

// attemptOf is what the record says of the last outcome.
func attemptOf(w *writing) []attempt {
	for _, c := range w.Conditions {
		if c.Type == "Reconciled" && c.Reason != "" {
			return []attempt{{
				Outcome: printable.Text(c.Reason), Bad: c.Bad, At: c.Since, Message: c.Message, By: "by its record",
			}}
		}
	}
	return nil
}
