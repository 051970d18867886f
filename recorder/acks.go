package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// acks publishes to a stream and receives the acknowledgements on a channel, so that it needs no goroutine.
// The library's PublishMsgAsync starts one that may outlive CleanupPublisher (nats.go 1.55.0,
// resetPendingAcksOnReconnect), and a recorder promises to leave none.
type acks struct {
	conn    *nats.Conn
	replies chan *nats.Msg
	lost    chan nats.Status // the connection is lost: events on the wire may not have arrived
	denials *denials.Denials
	denied  chan struct{} // something was denied
	sub     *nats.Subscription
	granted *denials.Watch // of sub
	inbox   string
	id      uint64
	flights []flight // in the order sent
}

// flight is an event on the wire.
type flight struct {
	id      uint64
	item    *pendingEvent
	sent    time.Time
	granted *denials.Watch
}

func newAcks(conn *nats.Conn) *acks {
	return &acks{
		conn: conn,
		// Room for stale acknowledgements as well, of events that were sent again.
		replies: make(chan *nats.Msg, 4*publishWindow),
		lost:    conn.StatusChanged(nats.RECONNECTING, nats.CLOSED),
		denials: denials.Of(conn),
		denied:  make(chan struct{}, 1),
		inbox:   conn.NewInbox() + ".",
	}
}

// stop ends the subscription and the listener. The outcome of the events on the wire stays unknown.
func (a *acks) stop() {
	a.unsubscribe()
	for _, f := range a.flights {
		f.granted.Stop()
	}
	a.conn.RemoveStatusListener(a.lost)
}

func (a *acks) unsubscribe() {
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // fails on a closed connection, which has no subscriptions
		a.granted.Stop()
		a.sub = nil
	}
}

// tell wakes the publisher when the server denies something.
func (a *acks) tell(error) {
	select {
	case a.denied <- struct{}{}:
	default:
	}
}

func (a *acks) send(item *pendingEvent, data []byte) error {
	if a.sub == nil {
		a.granted = a.denials.Subscribe(a.inbox+"*", a.tell)
		sub, err := a.conn.ChanSubscribe(a.inbox+"*", a.replies)
		if err != nil {
			a.granted.Stop()
			return fmt.Errorf("subscribing to acknowledgements: %w", err)
		}
		a.sub = sub
	}
	a.id++
	msg := &nats.Msg{Subject: item.subject, Reply: a.inbox + strconv.FormatUint(a.id, 10), Data: data}
	granted := a.denials.Publish(item.subject, a.tell)
	if err := a.conn.PublishMsg(msg); err != nil {
		granted.Stop()
		return err
	}
	a.flights = append(a.flights, flight{a.id, item, time.Now(), granted})
	return nil
}

// takeDenied removes the events that the server denied from the list, and returns them. If it denied the
// acknowledgements, these are all.
func (a *acks) takeDenied() (items []*pendingEvent, err error) {
	if a.sub != nil && a.granted.Err() != nil {
		err = a.granted.Err()
		a.unsubscribe()
		return a.all(), err
	}
	kept := a.flights[:0]
	for _, f := range a.flights {
		if denied := f.granted.Err(); denied != nil {
			f.granted.Stop()
			items, err = append(items, f.item), denied
		} else {
			kept = append(kept, f)
		}
	}
	a.flights = kept
	return items, err
}

// landed returns the event that a reply is for, and its outcome. The event is nil if the reply came too late.
func (a *acks) landed(reply *nats.Msg) (item *pendingEvent, stream string, err error) {
	id, err := strconv.ParseUint(reply.Subject[len(a.inbox):], 10, 64)
	if err != nil {
		return nil, "", nil
	}
	for i, f := range a.flights {
		if f.id == id {
			f.granted.Stop()
			a.flights = append(a.flights[:i], a.flights[i+1:]...)
			stream, err = parseAck(reply)
			return f.item, stream, err
		}
	}
	return nil, "", nil
}

// overdue removes the events that have waited for ackTimeout from the list, and returns them.
func (a *acks) overdue(now time.Time) (items []*pendingEvent) {
	for len(a.flights) > 0 && now.Sub(a.flights[0].sent) >= ackTimeout {
		a.flights[0].granted.Stop()
		items = append(items, a.flights[0].item)
		a.flights = a.flights[1:]
	}
	return items
}

// all removes all events from the list, and returns them.
func (a *acks) all() (items []*pendingEvent) {
	for _, f := range a.flights {
		f.granted.Stop()
		items = append(items, f.item)
	}
	a.flights = nil
	return items
}

func parseAck(reply *nats.Msg) (stream string, err error) {
	if len(reply.Data) == 0 && reply.Header.Get("Status") == "503" {
		return "", jetstream.ErrNoStreamResponse
	}
	var ack struct {
		Error  *jetstream.APIError `json:"error"`
		Stream string              `json:"stream"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return "", errors.Join(jetstream.ErrInvalidJSAck, err)
	}
	if ack.Error != nil {
		return "", ack.Error
	}
	if ack.Stream == "" {
		return "", jetstream.ErrInvalidJSAck
	}
	return ack.Stream, nil
}
