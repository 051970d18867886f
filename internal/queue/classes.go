package queue

// Class is what the queue can have of a key. A key may be in several.
type Class uint8

const (
	InHand   Class = iota // a worker has it
	Ready                 // it waits for a worker
	Quiet                 // it changed, and has to be quiet first
	Requeued              // its next run is delayed by a requeue
	ByUser                // a user's EnqueueAfter
	AnyClass              // any of them, or its next run is delayed by a retry, or is due once the one in progress ends
)

// list has the keys of a class other than Ready; nil if there is none for it.
func (q *Queue) list(c Class) *entryList {
	switch c {
	case InHand:
		return &q.inHand
	case Quiet:
		return &q.delayed[quietDelay]
	case Requeued:
		return &q.delayed[RequeueDelay]
	case ByUser:
		return &q.delayed[UserDelay]
	}
	return nil
}

func (e *entry) is(c Class) bool {
	switch c {
	case InHand:
		return e.running
	case Ready:
		return e.ops != 0 && !e.running && !e.held
	case Quiet:
		return e.wait != nil && e.wait.kind == quietDelay
	case Requeued:
		return e.wait != nil && e.wait.kind == RequeueDelay
	case ByUser:
		return e.user != nil
	}
	return true
}

// KeysIn returns the keys of a class, in no order. Keys that come and go meanwhile may be among them or not. It looks
// at few others.
func (q *Queue) KeysIn(c Class) []string {
	if keys, all := q.Oldest(c, BatchSize); all {
		return keys
	}
	return BatchedKeys(&q.mu, &q.entries, func(e *entry) bool { return e.is(c) }, nil)
}

// Oldest returns up to so many keys of a class, the one that is in it for longest first, and whether these are all. It
// looks at no others. Of AnyClass, which has no order, it returns none.
func (q *Queue) Oldest(c Class, most int) (keys []string, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c == Ready {
		return q.ready.byAge.oldestKeys(most)
	}
	l := q.list(c)
	if l == nil {
		return nil, len(q.entries) == 0
	}
	return l.first(most), l.len <= most
}
