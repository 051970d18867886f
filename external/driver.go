package external

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Driver makes one kind of resources be as desired. Reconcile calls it, for one resource of one primary at a time.
//
// IExternalClient has another Delete, so one type cannot be both: embed the driver in a type of its own.
type Driver[Desired, Observed any] interface {
	// Kind is the kind of the client, if there is one (controller.OwnsExternal). The two share breaker and rate limit.
	// It has no slash.
	Kind() string
	// Observe looks at the resource, without side effects. It finds it by the owner and name that Apply marked it with,
	// by a name made from them, or by the token of an open intent. It must not guess: on an error, and on Unknown,
	// Reconcile neither creates nor deletes. Absent means that the API says so. Settle is for an API, or a replica of
	// it, that shows changes late.
	Observe(ctx context.Context, target Target) (Observation[Observed], error)
	// Diff returns the differences that have to be changed. It is pure. Fields that the API adds by itself are no
	// difference.
	Diff(desired Desired, observed Observed) []Change
	// Apply creates the resource or changes it, and marks it with its owner. Called again with the same token it must
	// not create again: the API knows tokens, or the resource's name follows from the token or the target, or Apply
	// looks for the token first. After an error it is unknown what was done, unless the error is Refused. An answer of
	// the API counts even if the context has ended meanwhile: return the operation that it names, and not the context's
	// error.
	Apply(ctx context.Context, request ApplyRequest[Desired, Observed]) (Outcome, error)
	// Delete removes the resource. If it is absent, that is a success.
	Delete(ctx context.Context, request DeleteRequest[Observed]) (Outcome, error)
}

// Poller is an optional interface of a Driver whose Apply or Delete return operations that go on.
type Poller interface {
	// Poll asks how an operation is getting on. An error says nothing about the operation, except ErrNoOperation.
	Poll(ctx context.Context, target Target, operation string) (Progress, error)
}

// ErrNoOperation is what an error of Poll wraps if the API does not know the operation, or has forgotten it, as many
// APIs do after a while. The operation is then over, and Observe shows its result.
var ErrNoOperation = errors.New("no such operation")

// Owner names the primary of a resource, as the marks on the resource must.
type Owner struct {
	Kind, Key string
	Instance  string // id of the installation
}

// Target says which resource is meant.
type Target struct {
	Owner Owner
	Name  string // tells several resources of one kind and owner apart; see Name
	Token string // of the open intent; "" if none is open
}

// ApplyRequest says what Apply has to do.
type ApplyRequest[Desired, Observed any] struct {
	Target   // with the token of this intent
	Desired  Desired
	Observed *Observed // nil: create
	Changes  []Change  // what Diff said
}

// DeleteRequest says what Delete has to do.
type DeleteRequest[Observed any] struct {
	Target
	Observed *Observed
}

// Change is one difference between the observed and the desired resource.
type Change struct{ Field, From, To string }

// String is "field: from → to".
func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To) }

type presence uint8

const (
	unknown presence = iota
	absent
	exists
	busy
)

// Observation is the result of Observe. The zero value is Unknown.
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

// Unknown says that the driver cannot tell, and why.
func Unknown[Observed any](why string) Observation[Observed] { return Observation[Observed]{why: why} }

// Busy says that a change of the resource is under way, no matter who asked for it. Reconcile applies nothing until it
// is over. If an intent is open and Poll knows the operation, Reconcile polls it; else it calls Observe again.
func Busy[Observed any](operation string) Observation[Observed] {
	return Observation[Observed]{presence: busy, operation: operation}
}

// Outcome is the result of Apply or Delete. The zero value is Done.
type Outcome struct {
	operation string
	after     time.Duration
}

// Done says that the API has done it. The intent is over once Observe sees it.
func Done() Outcome { return Outcome{} }

// Started says that the API works on it, as an operation that Poll knows, even after a restart. after is when to ask; 0
// means the default (see PollInterval).
func Started(operation string, after time.Duration) Outcome {
	return Outcome{operation: operation, after: after}
}

// Progress is the state of an operation. The zero value means that it is not over.
type Progress struct {
	// Over is true when the operation has ended. Err then says why it failed; nil means that it succeeded.
	Over bool
	Err  error
	// After is when to ask again; 0 means the default.
	After time.Duration
}
