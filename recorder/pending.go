package recorder

import (
	"container/list"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pendingEvent is an event on its way to the stream.
type pendingEvent struct {
	subject string
	event   *corev1.Event
	order   uint64    // of arrival
	since   time.Time // when it, or the former count that it replaced, arrived
}

// pendingEvents are the events to be sent, oldest first, at most one per subject.
type pendingEvents struct {
	order   uint64
	fifo    list.List
	subject map[string]*list.Element
}

func (p *pendingEvents) len() int { return p.fifo.Len() }

// put adds an event. A repeat replaces the former count of itself; merged says so.
func (p *pendingEvents) put(subject string, event *corev1.Event) (merged bool) {
	if e, ok := p.subject[subject]; ok {
		e.Value.(*pendingEvent).event = event
		return true
	}
	p.order++
	item := &pendingEvent{subject: subject, event: event, order: p.order, since: time.Now()}
	p.subject[subject] = p.fifo.PushBack(item)
	return false
}

// putBack returns an event that could not be sent to its place, unless a repeat of it has arrived since.
func (p *pendingEvents) putBack(item *pendingEvent) (merged bool) {
	if _, ok := p.subject[item.subject]; ok {
		return true
	}
	next := p.fifo.Front()
	for next != nil && next.Value.(*pendingEvent).order < item.order {
		next = next.Next()
	}
	if next == nil {
		p.subject[item.subject] = p.fifo.PushBack(item)
	} else {
		p.subject[item.subject] = p.fifo.InsertBefore(item, next)
	}
	return false
}

func (p *pendingEvents) takeOldest() *pendingEvent {
	item := p.fifo.Remove(p.fifo.Front()).(*pendingEvent)
	delete(p.subject, item.subject)
	return item
}
