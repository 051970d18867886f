package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Driver makes one kind of resources be as desired. Reconcile calls it, for one resource of one primary at a time.
//
// A type that is an IExternalClient too needs another Delete there: embed the driver in a type of its own.
type Driver[Desired, Observed any] interface {
	// Kind is the client's kind, if there is a client (controller.OwnsExternal): they share breaker and rate limit. It has
	// no slash.
	Kind() string
	// Observe looks, without side effects. It finds the resource by the owner and name that Apply marked it with, by a name
	// made from them, or by the token of an open intent. What it does not know it must not guess: an error, like Unknown,
	// neither creates nor deletes. Absent means that the API says so; an API, or a replica of it, that shows late what was done is
	// what Settle is for.
	Observe(ctx context.Context, target Target) (Observation[Observed], error)
	// Diff says what differs, and nothing where nothing has to be changed. It is pure. What the API adds by itself is no
	// difference.
	Diff(desired Desired, observed Observed) []Change
	// Apply creates the resource or changes it, and marks it with its owner. Called again with the same token it must not
	// create again: the API knows tokens, or the resource's name follows from the token or the target, or Apply looks for the
	// token first. What an error has done is not known, unless it is Refused. The answer of a call counts also where its context
	// has ended meanwhile, so return an operation that the API has told rather than the context's error.
	Apply(ctx context.Context, request ApplyRequest[Desired, Observed]) (Outcome, error)
	// Delete removes the resource. One that is absent is success.
	Delete(ctx context.Context, request DeleteRequest[Observed]) (Outcome, error)
}

// Poller is an optional interface of a Driver whose Apply or Delete return operations that go on.
type Poller interface {
	// Poll asks how an operation is getting on. An error says nothing about the operation, but for ErrNoOperation.
	Poll(ctx context.Context, target Target, operation string) (Progress, error)
}

// ErrNoOperation is what an error of Poll wraps where the API does not know the operation (any more), as many forget theirs after
// a while. The operation is then over, and Observe tells what came of it.
var ErrNoOperation = errors.New("no such operation")

// Owner names the primary of a resource, as its marks must.
type Owner struct {
	Kind, Key string
	Instance  string // id of the installation
}

// Target says which resource is meant.
type Target struct {
	Owner Owner
	Name  string // tells several resources of one kind and owner apart; see Name
	Token string // of the intent that is open; "" if none is
}

// ApplyRequest is what Apply has to do.
type ApplyRequest[Desired, Observed any] struct {
	Target   // with the token of this intent
	Desired  Desired
	Observed *Observed // nil: create
	Changes  []Change  // what Diff said
}

// DeleteRequest is what Delete has to do.
type DeleteRequest[Observed any] struct {
	Target
	Observed *Observed
}

// Change is one difference between what is and what should be.
type Change struct{ Field, From, To string }

// String is "field: from → to".
func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To) }

func describe(changes []Change) string {
	parts := make([]string, len(changes))
	for i, change := range changes {
		parts[i] = change.String()
	}
	return strings.Join(parts, ", ")
}

type presence uint8

const (
	unknown presence = iota
	absent
	exists
	busy
)

// Observation is what Observe saw. The zero value is Unknown.
type Observation[Observed any] struct {
	presence  presence
	observed  Observed
	operation string
	why       string
}

// Exists says that the resource is there, as observed.
func Exists[Observed any](observed Observed) Observation[Observed] {
	return Observation[Observed]{presence: exists, observed: observed}
}

// Absent says that the resource is not there.
func Absent[Observed any]() Observation[Observed] { return Observation[Observed]{presence: absent} }

// Unknown says that nobody can tell, and why.
func Unknown[Observed any](why string) Observation[Observed] { return Observation[Observed]{why: why} }

// Busy says that a change of the resource is under way, whoever asked for it: nothing is applied until it is over. With an
// operation that Poll knows that is polled, else Observe is asked again.
func Busy[Observed any](operation string) Observation[Observed] {
	return Observation[Observed]{presence: busy, operation: operation}
}

// Outcome is what Apply or Delete came to. The zero value is Done.
type Outcome struct {
	operation string
	after     time.Duration
}

// Done says that the API has done it. The intent is over once Observe sees it.
func Done() Outcome { return Outcome{} }

// Started says that the API works on it, as an operation that Poll knows, also after a restart. after is when to ask, 0 for
// the default (see PollInterval).
func Started(operation string, after time.Duration) Outcome {
	return Outcome{operation: operation, after: after}
}

// Progress is how an operation is getting on. The zero value is: not over.
type Progress struct {
	// Over is true when the operation has ended, Err then why it failed, nil if it did not.
	Over bool
	Err  error
	// After is when to ask again; 0 is the default.
	After time.Duration
}
