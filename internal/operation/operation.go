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
	Resync    Operation = 6 // its turn in the resync interval, a new term, an informer's resync
	Retry     Operation = 7 // the last attempt failed and its backoff is over
	Requeue   Operation = 8 // the last attempt asked for it with RequeueAfter
	Manual    Operation = 9 // asked for by hand
)

// table is all that there is to know of an operation. A new one needs a row here, and its constant for users in
// controller/operation.go and controllerruntime/operation.go.
var table = [...]struct {
	name string
	is   trait
}{
	Put:       {"Put", document},
	Delete:    {"Delete", document | gone | others},
	Purge:     {"Purge", document | gone | others},
	Secondary: {"Secondary", event},
	Tertiary:  {"Tertiary", event},
	External:  {"External", event | others},
	Resync:    {"Resync", 0},
	Retry:     {"Retry", delayed},
	Requeue:   {"Requeue", delayed},
	Manual:    {"Manual", asked | others},
}

// trait is what operations have in common.
type trait uint8

const (
	document trait = 1 << iota // says what last happened to the document: of those, a set holds the last
	gone                       // the document is gone
	event                      // something else than the primary has changed
	delayed                    // its delay has passed: an event that comes first drops it
	asked                      // it was asked for: it runs even if nothing is owed, and wakes a parked key
	others                     // the key's own writes do not cause it
)

// all returns the set of the operations with a trait.
func all(is trait) (set Operations) {
	for op, row := range table {
		if row.is&is != 0 {
			set |= 1 << op
		}
	}
	return set
}

var (
	documents, goners, events    = all(document), all(gone), all(event)
	delays, askings, notOwnDoing = all(delayed), all(asked), all(others)
)

// All returns all operations, the lowest first.
func All() []Operation {
	ops := make([]Operation, len(table))
	for op := range ops {
		ops[op] = Operation(op)
	}
	return ops
}

// String returns the operation's name, such as "Put", and "Unknown" for a value
// that is none of the constants.
func (o Operation) String() string {
	if !o.known() {
		return "Unknown"
	}
	return table[o].name
}

func (o Operation) known() bool { return int(o) < len(table) }

// Operations is a set of reasons to reconcile a key. The zero value is the empty
// set, which a reconciler is never handed. Of Put, Delete and Purge it holds at
// most one: the last that happened.
type Operations uint32

const (
	// ByHand marks a call of Enqueue by hand: it is not debounced, and wakes a parked key with Put, Delete and Purge.
	ByHand Operations = 1 << 31

	// ByHandler marks, beside ByHand, what a handler of events asks for. The key's trail knows the event, which may be
	// the key's own doing, so the request alone does not end a loop.
	ByHandler Operations = 1 << 30

	// Anywhere marks, beside ByHand, what was asked for by hand of one replica: where replicas share the keys, the one
	// that works at the key is to be told.
	Anywhere Operations = 1 << 29

	public Operations = 1<<len(table) - 1

	// Owed is the reason of a delete that is owed, and Swept that of an owner without a record: it runs although
	// nothing is owed.
	Owed  Operations = 1 << Delete
	Swept            = Owed | ByHand
)

// Gone reports whether the document is gone.
func (o Operations) Gone() bool { return o&goners != 0 }

// Deletion is what a reconciler is told of a primary that is gone, whatever made the key due: Purge or Delete.
func Deletion(o Operations) Operations {
	if o.Has(Purge) {
		return 1 << Purge
	}
	return Owed
}

// AfterEvent returns the set without the reasons whose delay an event has overtaken.
func AfterEvent(o Operations) Operations { return o &^ delays }

// IsEvent reports whether op says that something else than the primary has changed.
func IsEvent(op Operation) bool { return events.Has(op) }

// OfOthers reports whether there is a reason that the key's own writes do not cause.
func OfOthers(o Operations) bool { return o&notOwnDoing != 0 || o&ByHand != 0 && o&ByHandler == 0 }

// MayBeOwn reports whether there is an event that the key's own writes may have caused.
func MayBeOwn(o Operations) bool { return o&(events&^notOwnDoing) != 0 }

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
	for _, op := range All() {
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
	if newer&documents != 0 {
		older &^= documents
	}
	return older | newer
}

// AskedFor reports whether the key was enqueued by hand: it runs even if nothing is owed.
func (o Operations) AskedFor() bool { return o&(ByHand|askings) != 0 }

// WakesParked reports whether the operations ask to try a parked key again at once although it has not changed.
func (o Operations) WakesParked() bool {
	return o&askings != 0 || o&ByHand != 0 && o&documents != 0
}

// StirsParked reports whether something that a parked key owns or reads has changed: it is tried again, but not sooner
// than its pause allows. Time alone (Retry, Requeue, Resync) does not stir it.
func (o Operations) StirsParked() bool { return o&events != 0 }
