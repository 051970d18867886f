package external

import (
	"context"
	"encoding/json"
	"time"
)

// Action is the change that an intent makes.
type Action string

// The actions of intents.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	ActionDelete Action = "delete"
)

// Intent is a change that is about to be made to a resource. It is written down before the API is called, and kept
// until the result was observed. A process that finds one after a crash knows that the change may have been made.
type Intent struct {
	Token  string `json:"token"` // the same for every try
	Action Action `json:"action"`
	// Digest and Desired say what is to be applied, so that a try can be repeated as it was. Neither keeps Desired
	// secret, except its secret fields, which both lack: see Reconcile.
	Digest  string          `json:"digest,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Tried is when the API was last called, or answered.
	Tried time.Time `json:"tried"`
	// Settle is how long from then on the result may be unknown: Reconcile's Settle, and until the API has answered the
	// call's Timeout too, because the call may be carried out as late as that.
	Settle time.Duration `json:"settle,omitempty"`
	// Operation is the API's handle of the operation under way.
	Operation string `json:"operation,omitempty"`
	// Answered says that the API said it is done, and that the result was not observed yet.
	Answered bool `json:"answered,omitempty"`
}

// Creation is when a creation was observed, and how long from then on the API may now and then not show it.
type Creation struct {
	At     time.Time     `json:"at"`
	Settle time.Duration `json:"settle"`
}

// Entry is what is remembered of one resource, as long as its primary has it. The zero value says that nothing is
// remembered.
type Entry struct {
	Intent *Intent `json:"intent,omitempty"`
	// Applied is the digest of the last wish that was fulfilled or created, or whose drift the policy leaves. It tells
	// drift from a new wish. It is kept under each drift policy, because the policy may change.
	Applied string `json:"applied,omitempty"`
	// Created is the last creation.
	Created *Creation `json:"created,omitempty"`
	// ObserveOnly says that the resource is not to be deleted for the primary.
	ObserveOnly bool `json:"observeOnly,omitempty"`

	// Seen is when this process first read or wrote the entry as it is now; zero if unknown. Store.Load sets it. Waits
	// count from Seen, because the clock of another machine may be ahead or behind.
	Seen time.Time `json:"-"`
	// Since is when this process became the only one to write entries; zero if unknown. Store.Load sets it. The wait
	// for an older creation counts from Since, because the clock of the process that created it may have been behind.
	Since time.Time `json:"-"`
}

// IsZero reports whether there is nothing to remember.
func (e Entry) IsZero() bool {
	return e.Intent == nil && e.Applied == "" && e.Created == nil && !e.ObserveOnly
}

// Settled returns when the results of the intent and of the last creation are visible for certain; zero if there is
// nothing to wait for. timeout (of a call) and settle hold now; if longer ones were written down, those count.
func (e Entry) Settled(timeout, settle time.Duration) time.Time {
	var until time.Time
	if e.Created != nil {
		until = e.created().Add(max(e.Created.Settle, settle))
	}
	if e.Intent == nil {
		return until
	}
	if !e.Intent.Answered {
		settle += timeout
	}
	since := e.Seen
	if since.IsZero() {
		since = e.Intent.Tried
	}
	if intent := since.Add(max(e.Intent.Settle, settle)); intent.After(until) {
		until = intent
	}
	return until
}

// created returns when the last creation was observed or, if a clock was ahead or behind, when that was at the latest.
func (e Entry) created() time.Time {
	switch at := e.Created.At; {
	case !e.Seen.IsZero() && at.After(e.Seen):
		return e.Seen
	case at.Before(e.Since):
		return e.Since
	default:
		return at
	}
}

// Same reports whether two entries say the same.
func (e Entry) Same(other Entry) bool {
	a, errA := json.Marshal(e)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && string(a) == string(b)
}

// Store keeps the entries of one primary across crashes. A resource is named by its kind and, after a slash, its name.
type Store interface {
	// Load reads the current entry of a resource, with Seen and Since; the zero Entry if there is none.
	Load(ctx context.Context, resource string) (Entry, error)
	// Save replaces before by after. It fails if the stored entry is not before any more. The zero Entry forgets.
	Save(ctx context.Context, resource string, before, after Entry) error
}
