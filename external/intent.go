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
	// Digest and Desired say what is to be applied, so that a try can be repeated as it was.
	Digest  string          `json:"digest,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Tried is when the API was called first, or last answered.
	Tried time.Time `json:"tried"`
	// Operation is the API's handle of what goes on.
	Operation string `json:"operation,omitempty"`
	// Answered tells that the API said it is done, though that was not observed yet.
	Answered bool `json:"answered,omitempty"`
}

// Entry is what is remembered of one resource. The zero value is nothing.
type Entry struct {
	Intent *Intent `json:"intent,omitempty"`
	// Applied is the digest of what was applied last, where somebody needs to tell drift from a wish that changed.
	Applied string `json:"applied,omitempty"`
}

// IsZero tells whether there is nothing to remember.
func (e Entry) IsZero() bool { return e.Intent == nil && e.Applied == "" }

// Same tells whether two entries say the same.
func (e Entry) Same(other Entry) bool {
	a, errA := json.Marshal(e)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && string(a) == string(b)
}

// Store remembers the entries of one primary, over crashes. A resource is named by its kind, and its name after a slash.
type Store interface {
	// Load reads what is remembered of a resource, as it is now; the zero Entry if nothing is.
	Load(ctx context.Context, resource string) (Entry, error)
	// Save replaces before by after, and fails if something else is remembered by now. The zero Entry forgets.
	Save(ctx context.Context, resource string, before, after Entry) error
}
