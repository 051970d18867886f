package recorder

import "sync/atomic"

// Stats counts the events since New. Each recorded event ends in exactly one of the other counts, or is pending.
type Stats struct {
	NATS       Counts // about NATS entities
	Kubernetes Counts // about Kubernetes objects; client-go hides Merged, Filtered, Pending and full queues
	Refused    uint64 // events that are neither: no object, no name, an unknown type; the log says which
}

// Counts are the events of one destination.
type Counts struct {
	Recorded  uint64 // calls of Event, Eventf and AnnotatedEventf
	Published uint64 // acknowledged by the server
	Merged    uint64 // overtaken by a repeat of the same event, with a higher count, before it was sent
	Filtered  uint64 // throttled, because their object causes too many; the next repeat that is published counts them
	Dropped   uint64 // there was no room, no server before the recorder closed, or no destination configured
	Failed    uint64 // the server refuses them, or did not take them before they were older than MaxAge
	Pending   uint64 // waiting to be sent
}

type counters struct {
	recorded, published, merged, filtered, dropped, failed atomic.Uint64
}

func (c *counters) snapshot() Counts {
	// Recorded is read last, so that Pending is never negative.
	s := Counts{
		Published: c.published.Load(),
		Merged:    c.merged.Load(),
		Filtered:  c.filtered.Load(),
		Dropped:   c.dropped.Load(),
		Failed:    c.failed.Load(),
	}
	s.Recorded = c.recorded.Load()
	return s
}
