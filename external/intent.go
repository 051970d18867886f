package external

import (
	"context"
	"encoding/json"
	"time"
)

// Action is what an intent is to do.
type Action string

// The actions of intents.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	ActionDelete Action = "delete"
)

// Intent is what is about to be done to a resource. It is written down before the API is called, and kept until the result
// was observed: whoever finds one after a crash knows that it may have been done.
type Intent struct {
	Token  string `json:"token"` // the same for every try
	Action Action `json:"action"`
	// Digest and Desired say what is to be applied, so that a try can be repeated as it was. Both are as plain as Desired is.
	Digest  string          `json:"digest,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Tried is when the API was called last, or answered.
	Tried time.Time `json:"tried"`
	// Settle is how long from then on nobody knows what came of it: Reconcile's Settle, and before the API has answered the
	// Timeout of the call too, for it may be carried out as late as that.
	Settle time.Duration `json:"settle,omitempty"`
	// Operation is the API's handle of what goes on.
	Operation string `json:"operation,omitempty"`
	// Answered tells that the API said it is done, though that was not observed yet.
	Answered bool `json:"answered,omitempty"`
}

// Creation is when a creation was seen to be done, and how long from then on the API may still not show it now and then.
type Creation struct {
	At     time.Time     `json:"at"`
	Settle time.Duration `json:"settle"`
}

// Entry is what is remembered of one resource, as long as its primary has it. The zero value is nothing.
type Entry struct {
	Intent *Intent `json:"intent,omitempty"`
	// Applied is the digest of what was last desired and found to be so, which tells drift from a wish that has changed. It
	// is kept under each policy, for another may be set.
	Applied string `json:"applied,omitempty"`
	// Created is of the last creation.
	Created *Creation `json:"created,omitempty"`
	// ObserveOnly tells that nobody may delete the resource for the primary.
	ObserveOnly bool `json:"observeOnly,omitempty"`

	// Seen is when this process first read or wrote the entry as it is now. Store.Load sets it. What has to be waited for
	// counts from then, because the clock of another machine may be ahead or behind; zero where nobody knows.
	Seen time.Time `json:"-"`
	// Since is from when on nobody but this process has written entries. Store.Load sets it. What was created before is waited for
	// from then, because the clock of who created it may have been behind; zero where nobody knows.
	Since time.Time `json:"-"`
}

// IsZero tells whether there is nothing to remember.
func (e Entry) IsZero() bool {
	return e.Intent == nil && e.Applied == "" && e.Created == nil && !e.ObserveOnly
}

// Settled is when whoever looks sees what came of the intent, and of the last creation; zero if nothing has to be waited for. Of
// what was written down and what holds now, timeout of a call and settle, the longer counts.
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

// created is when the last creation was seen to be done, or, where some clock was ahead or behind, when that was at the latest.
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

// Same tells whether two entries say the same.
func (e Entry) Same(other Entry) bool {
	a, errA := json.Marshal(e)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && string(a) == string(b)
}

// Store remembers the entries of one primary, over crashes. A resource is named by its kind, and its name after a slash.
type Store interface {
	// Load reads what is remembered of a resource, as it is now, with Seen; the zero Entry if nothing is.
	Load(ctx context.Context, resource string) (Entry, error)
	// Save replaces before by after, and fails if something else is remembered by now. The zero Entry forgets.
	Save(ctx context.Context, resource string, before, after Entry) error
}
