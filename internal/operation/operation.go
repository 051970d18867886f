// Package operation has the reasons to reconcile a key, and sets of them.
//
// The rule: reasons accumulate until the key is reconciled. Put, Delete and Purge exclude each other, and the newer one
// wins. A reconciler is never handed the empty set. Users see the reasons; the marks beside them are the runtime's own.
package operation

import (
	"math/bits"
	"strings"
)

// Operation is one reason to reconcile a key.
//
// Put, Delete and Purge say what last happened to the primary's document. The
// others say what else asked for the reconcile.
type Operation uint8

// The values of the first four are those of the Kumori controllerruntime.
const (
	Put       Operation = 0 // the document was written
	Delete    Operation = 1 // the document was deleted, or is absent
	Purge     Operation = 2 // the document and its history were purged
	Secondary Operation = 3 // something that the key owns has changed
	Tertiary  Operation = 4 // something that the key only reads has changed
	External  Operation = 5 // an external resource drifted
	Resync    Operation = 6 // its turn in the resync interval, or a trigger for all keys
	Retry     Operation = 7 // the last attempt failed and its backoff is over
	Requeue   Operation = 8 // the last attempt asked for it with RequeueAfter
	Manual    Operation = 9 // somebody asked for it by hand
)

var operationNames = [...]string{
	Put:       "Put",
	Delete:    "Delete",
	Purge:     "Purge",
	Secondary: "Secondary",
	Tertiary:  "Tertiary",
	External:  "External",
	Resync:    "Resync",
	Retry:     "Retry",
	Requeue:   "Requeue",
	Manual:    "Manual",
}

// String returns the operation's name, such as "Put", and "Unknown" for a value
// that is none of the constants.
func (o Operation) String() string {
	if !o.known() {
		return "Unknown"
	}
	return operationNames[o]
}

func (o Operation) known() bool { return int(o) < len(operationNames) }

// Operations is a set of reasons to reconcile a key. The zero value is the empty
// set, which a reconciler is never handed. Of Put, Delete and Purge it holds at
// most one: the last that happened.
type Operations uint32

const (
	// ByHand marks that somebody called Enqueue by hand: it is neither
	// debounced nor ignored for a parked key.
	ByHand Operations = 1 << 31

	// ByHandler marks, beside ByHand, what a handler of events asks for. The key's trail knows the event, which may be
	// the key's own doing, so the request alone does not end a loop.
	ByHandler Operations = 1 << 30

	public   Operations = 1<<len(operationNames) - 1
	document            = 1<<Put | 1<<Delete | 1<<Purge
	events              = 1<<Secondary | 1<<Tertiary | 1<<External

	// Delayed are the reasons that name a delay which has passed. An event that comes first drops them.
	Delayed = 1<<Retry | 1<<Requeue
)

// Has reports whether op is in the set. It is false for an unknown operation.
func (o Operations) Has(op Operation) bool {
	return op.known() && o&(1<<op) != 0
}

// String returns the names of the operations, the lowest first, joined by "|":
// "Put|Secondary". The empty set is "None".
func (o Operations) String() string {
	o = o.Public()
	if o == 0 {
		return "None"
	}
	if o&(o-1) == 0 {
		return Operation(bits.TrailingZeros32(uint32(o))).String()
	}
	var b strings.Builder
	for op := range Operation(len(operationNames)) {
		if !o.Has(op) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('|')
		}
		b.WriteString(op.String())
	}
	return b.String()
}

// Of returns the set of ops. An unknown operation counts as Manual, so
// that the set is not empty and the request is not lost.
func Of(ops ...Operation) Operations {
	var set Operations
	for _, op := range ops {
		if !op.known() {
			op = Manual
		}
		set = Union(set, 1<<op)
	}
	return set
}

// Public returns the set without the runtime's own marks: what users see.
func (o Operations) Public() Operations { return o & public }

// OrManual returns the set, with Manual added if it has no public operation: a reconciler is never handed the empty
// set.
func (o Operations) OrManual() Operations {
	if o.Public() == 0 {
		return o | 1<<Manual
	}
	return o
}

// Union merges two sets of reasons: of Put, Delete and Purge the newer wins, the others accumulate.
func Union(older, newer Operations) Operations {
	if newer&document != 0 {
		older &^= document
	}
	return older | newer
}

// AskedFor reports whether somebody enqueued the key by hand: it runs even if nothing is owed.
func (o Operations) AskedFor() bool { return o&ByHand != 0 || o.Has(Manual) }

// WakesParked reports whether the operations ask to try a parked key again at once although it has not changed.
func (o Operations) WakesParked() bool {
	return o.Has(Manual) || o&ByHand != 0 && o&document != 0
}

// StirsParked reports whether something that a parked key owns or reads has changed: it is tried again, but not sooner
// than its pause allows. Time alone (Retry, Requeue, Resync) does not stir it.
func (o Operations) StirsParked() bool { return o&events != 0 }
