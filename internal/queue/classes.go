package queue

// Class is what the queue can have of a key. A key may be in several.
type Class uint8

const (
	InHand   Class = iota // a worker has it
	Due                   // it is ready, or runs and is due again
	Waiting               // its next run is delayed: a retry, a requeue, or quiet
	ByUser                // a user's EnqueueAfter
	AnyClass              // any of them
)

func (e *entry) is(c Class) bool {
	switch c {
	case InHand:
		return e.running
	case Due:
		return e.ops != 0
	case Waiting:
		return e.wait != nil
	case ByUser:
		return e.user != nil
	}
	return true
}

// KeysIn returns the keys of a class, in no order. Keys that come and go meanwhile may be among them or not.
func (q *Queue) KeysIn(c Class) []string {
	return BatchedKeys(&q.mu, &q.entries, func(e *entry) bool { return e.is(c) }, nil)
}
