// Package explain says of any key what becomes of it: why it waits, and for what.
//
// The rule: nothing is kept for it alone, and nothing is asked of a server. An answer is what
// queue, caches and tables say at one moment. Two looks that agree make an answer; while a key moves it is looked at
// again. It tells nothing of what belongs to others: no owners, no documents, no ids.
package explain

import (
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// State is what a key does now, in one word. Package controller says what each means.
type State string

// The states, see package controller.
const (
	Malformed    State = "malformed"
	Unknown      State = "unknown"
	Stopped      State = "stopped"
	Starting     State = "starting"
	Standby      State = "standby"
	Elsewhere    State = "elsewhere"
	Running      State = "running"
	Handling     State = "handling"
	Invalid      State = "invalid"
	Unreadable   State = "unreadable"
	Suspended    State = "suspended"
	Held         State = "held"
	Parked       State = "parked"
	Ready        State = "ready"
	API          State = "api"
	Turn         State = "turn"
	OwnWrites    State = "ownwrites"
	Name         State = "name"
	Looping      State = "looping"
	Retry        State = "retry"
	Requeue      State = "requeue"
	Debounced    State = "debounced"
	Deleting     State = "deleting"
	Delayed      State = "delayed"
	Arriving     State = "arriving"
	Unreconciled State = "unreconciled"
	Calm         State = "calm"
)

// States are all that there are.
var States = []State{
	Malformed, Unknown, Stopped, Starting, Standby, Elsewhere, Running, Handling, Invalid, Unreadable, Suspended, Held,
	Parked, Ready, API, Turn, OwnWrites, Name, Looping, Retry, Requeue, Debounced, Deleting, Delayed, Arriving,
	Unreconciled, Calm,
}

// Explanation says why a key is where it is. Fields that say nothing are zero; several may be set at once. Texts are
// printable and bounded. They name no owner of what others have, and hold no values of documents, but for what a
// reconciler puts into its errors.
type Explanation struct {
	Key      string    `json:"key"`
	State    State     `json:"state"`
	Since    time.Time `json:"since,omitzero"`     // of the state, where that is known
	Says     string    `json:"says"`               // the same in plain words
	Revision uint64    `json:"revision,omitempty"` // of the document that decoded last

	Priority     string    `json:"priority,omitempty"`    // of a run that is due: live, secondary, background, a number
	Reasons      string    `json:"reasons,omitempty"`     // of the next run, as "Put|Secondary"
	ReadySince   time.Time `json:"readySince,omitzero"`   // a run is due; of a key that runs it is the next one
	Group        string    `json:"group,omitempty"`       // of a key that waits for a worker, if groups take turns
	GroupKeys    int       `json:"groupKeys,omitempty"`   // how many keys of it wait with that priority, this one too
	RateAt       time.Time `json:"rateAt,omitzero"`       // when the controller's rate lets the next key of all go
	RunningSince time.Time `json:"runningSince,omitzero"` // Reconcile is called
	Attempt      int       `json:"attempt,omitempty"`     // of the call under way; counts from 1
	DueAt        time.Time `json:"dueAt,omitzero"`        // the end of a delay: retry, requeue, quiet and the like
	WokenBy      string    `json:"wokenBy,omitempty"`     // what makes it due before that
	UserDueAt    time.Time `json:"userDueAt,omitzero"`    // the end of an EnqueueAfter

	Failures       int                     `json:"failures,omitempty"` // in a row: attempts, or writes of its record
	Error          string                  `json:"error,omitempty"`    // the last
	FailingSince   time.Time               `json:"failingSince,omitzero"`
	Parked         bool                    `json:"parked,omitempty"`
	ParkedRevision uint64                  `json:"parkedRevision,omitempty"` // 0 for a teardown
	Invalid        *entity.InvalidDocument `json:"invalid,omitempty"`
	Suspended      bool                    `json:"suspended,omitempty"`
	SuspendReason  string                  `json:"suspendReason,omitempty"` // why, as its document says
	Held           bool                    `json:"held,omitempty"`
	AwaitsWrites   bool                    `json:"awaitsWrites,omitempty"`
	AwaitsAPI      string                  `json:"awaitsAPI,omitempty"`   // its kind
	AwaitsTurn     string                  `json:"awaitsTurn,omitempty"`  // the kind of its API
	AwaitsNames    []string                `json:"awaitsNames,omitempty"` // with their sources, ten at most
	Looping        bool                    `json:"looping,omitempty"`
	Deleting       bool                    `json:"deleting,omitempty"`
	StillThere     []string                `json:"stillThere,omitempty"`    // what it owned, by the caches, ten at most
	StillThereAll  int                     `json:"stillThereAll,omitempty"` // how many they are
	Outside        []OutsideOwned          `json:"outside,omitempty"`       // behind APIs; not in lists
	HoldsPrune     bool                    `json:"holdsPrune,omitempty"`    // what it does not want awaits the brake
	Missing        []MissingNews           `json:"missing,omitempty"`       // so what is said of the key may be old

	Expires time.Time `json:"expires,omitzero"`  // the end of the document by its TTL; also once it has come
	Expired bool      `json:"expired,omitempty"` // the document is gone, and its TTL is over

	DocumentWarnings string `json:"documentWarnings,omitempty"` // what of the document is not read, see package entity

	Leading bool   `json:"leading"`          // this replica works
	Leader  string `json:"leader,omitempty"` // who held the lease when it was read last: host, process, a random part

	Member string `json:"member,omitempty"` // of the replicas that share the keys, the one that works at this one

	Recorded           string        `json:"recorded,omitempty"`           // the reason in the record's condition
	RecordedMessage    string        `json:"recordedMessage,omitempty"`    // if it says what the key waits for
	ReconciledRevision uint64        `json:"reconciledRevision,omitempty"` // the last one
	ReconciledAt       time.Time     `json:"reconciledAt,omitzero"`        // else when the condition last changed
	Took               time.Duration `json:"took,omitempty"`               // nanoseconds; of keys reconciled lately

	turn        queue.Turn // of a key that waits for a worker
	meant       string     // of a key that the bucket cannot have: the one that it can have
	recordAlone bool       // there is a record, and neither a document nor a teardown that is owed
	leaseless   bool       // the replica works without the lease
	share       Share      // where replicas share the keys
	confined    bool       // see ToNamespace
}

// OutsideOwned says what a key owns behind one API. See package controller.
type OutsideOwned = apisource.Owned

// MissingNews is a source whose news does not come, or not to the keys that it concerns.
type MissingNews struct {
	Source string    `json:"source"`
	Since  time.Time `json:"since"`
	Why    string    `json:"why,omitempty"` // missing where a namespace is asked about
}

// notWell are the states in which a key stands still until something is mended, or fails.
var notWell = []State{
	Malformed, Invalid, Unreadable, Suspended, Held, Parked, API, Name, Looping, Retry, Deleting,
}

// NotOK reports whether something is not as it should be: the key stands still until something is mended or decided,
// its attempts fail, or its document is gone and its teardown is not over.
func (e *Explanation) NotOK() bool {
	if e.State == Elsewhere {
		return e.Deleting || e.Invalid != nil || e.Suspended || e.Recorded != "" && e.Recorded != entity.ReasonSynced
	}
	return slices.Contains(notWell, e.State) || e.Failures > 0 || e.Parked || e.Held || e.HoldsPrune || e.Deleting
}
