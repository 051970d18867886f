package controllerruntime

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
	OperationPut       Operation = 0 // the document was written
	OperationDelete    Operation = 1 // the document was deleted, or is absent
	OperationPurge     Operation = 2 // the document and its history were purged
	OperationSecondary Operation = 3 // something that the key owns has changed
	OperationTertiary  Operation = 4 // something that the key only reads has changed
	OperationExternal  Operation = 5 // an external resource drifted
	OperationResync    Operation = 6 // its turn in the resync interval, or a trigger for all keys
	OperationRetry     Operation = 7 // the last attempt failed and its backoff is over
	OperationRequeue   Operation = 8 // the last attempt asked for it with RequeueAfter
	OperationManual    Operation = 9 // somebody asked for it by hand
)

var operationNames = [...]string{
	OperationPut:       "Put",
	OperationDelete:    "Delete",
	OperationPurge:     "Purge",
	OperationSecondary: "Secondary",
	OperationTertiary:  "Tertiary",
	OperationExternal:  "External",
	OperationResync:    "Resync",
	OperationRetry:     "Retry",
	OperationRequeue:   "Requeue",
	OperationManual:    "Manual",
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
	// explicitBit marks that somebody called Enqueue by hand: it is neither
	// debounced nor ignored for a parked key.
	explicitBit Operations = 1 << 31

	publicBits   Operations = 1<<len(operationNames) - 1
	documentBits            = 1<<OperationPut | 1<<OperationDelete | 1<<OperationPurge
	delayedBits             = 1<<OperationRetry | 1<<OperationRequeue
)

// Has tells whether op is in the set. It is false for an unknown operation.
func (o Operations) Has(op Operation) bool {
	return op.known() && o&(1<<op) != 0
}

// String returns the names of the operations, the lowest first, joined by "|":
// "Put|Secondary". The empty set is "None".
func (o Operations) String() string {
	o = o.public()
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

// operations returns the set of ops. An unknown operation counts as Manual, so
// that the set is not empty and the request is not lost.
func operations(ops ...Operation) Operations {
	var set Operations
	for _, op := range ops {
		if !op.known() {
			op = OperationManual
		}
		set = union(set, 1<<op)
	}
	return set
}

// public returns the set without the runtime's own marks: what users see.
func (o Operations) public() Operations { return o & publicBits }

// orManual returns the set, or with no public operation in it Manual besides: a
// reconciler is never handed the empty set.
func (o Operations) orManual() Operations {
	if o.public() == 0 {
		return o | 1<<OperationManual
	}
	return o
}

// union merges two sets of reasons: of Put, Delete and Purge the newer wins, the
// others accumulate.
func union(older, newer Operations) Operations {
	if newer&documentBits != 0 {
		older &^= documentBits
	}
	return older | newer
}

// explicit tells whether somebody enqueued the key by hand, so that it runs even where nothing is owed.
func (o Operations) explicit() bool { return o&explicitBit != 0 || o.Has(OperationManual) }

// wakes tells whether the operations ask to try a parked key again although it has not changed.
func (o Operations) wakes() bool {
	return o.Has(OperationManual) || o&explicitBit != 0 && o&documentBits != 0
}
