// Package connection knows since when a connection to NATS is down, and whether an outage of it was told.
//
// A lost connection is one fact, and much notices it: each cache, each lease, each write. They ask here, so that it is
// told once. The rules:
//
//   - [Connection.Look] asks the connection, and may wait while that dials. [Connection.State] says at once what was
//     seen last. It is for callers that must not wait, and needs a goroutine that looks when the status changes.
//   - The first caller of [Connection.TellDown] in an outage logs it, the first of [Connection.TellBack] after it logs
//     its end.
//   - A connection that is closed for good is not down, nor is it back: it does not come back by itself, and each user
//     reports that. The end of its last outage is never told.
package connection

import (
	"errors"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/nats-io/nats.go"
)

// Settle is how long after the end of an outage what fails may fail because of it: what was asked before gets no reply,
// and who tries again every few seconds has not done so yet.
const Settle = 6 * time.Second

// State is what was seen of a connection last. The zero State is that of one that was never seen to be down.
type State struct {
	Down  bool
	Since time.Time // when the last outage was first seen
	Back  time.Time // when it was seen to be over; zero while Down, and if the connection was closed in it
	// Closed says that the connection is closed for good. It is neither Down nor back then.
	Closed bool
	// Refused is why the server refuses the user, as far as that is why the connection is Down; else nil.
	Refused error
}

// Disturbed reports whether what fails now may fail because the connection is down, or was down a moment ago.
// What fails over a connection that is closed for good goes on to fail, so no.
func (s State) Disturbed() bool {
	return !s.Closed && (s.Down || !s.Back.IsZero() && time.Since(s.Back) < Settle)
}

// Connection is what is known of one connection. All methods may be called concurrently.
type Connection struct {
	of weak.Pointer[nats.Conn]

	mu         sync.Mutex
	state      State
	reconnects uint64 // that were seen
	toldDown   bool   // in this outage, or the last one
	toldBack   bool
}

// all are those of the connections of this process, which go with them.
var all = struct {
	sync.Mutex
	of map[weak.Pointer[nats.Conn]]*Connection
}{of: map[weak.Pointer[nats.Conn]]*Connection{}}

// Of returns what is known of a connection.
func Of(nc *nats.Conn) *Connection {
	key := weak.Make(nc)
	reconnects := nc.Stats().Reconnects
	all.Lock()
	defer all.Unlock()
	c := all.of[key]
	if c == nil {
		c = &Connection{of: key, reconnects: reconnects}
		all.of[key] = c
		runtime.AddCleanup(nc, forget, key)
	}
	return c
}

func forget(key weak.Pointer[nats.Conn]) {
	all.Lock()
	defer all.Unlock()
	delete(all.of, key)
}

// Look asks the connection how it is. It may wait for as long as the connection dials a server.
func (c *Connection) Look() State {
	nc := c.of.Value()
	if nc == nil {
		return c.State()
	}
	down, reconnects := nc.IsReconnecting(), nc.Stats().Reconnects
	closed := nc.IsClosed() // asked last: it stays so
	refused := refusal(nc.LastError())
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	again := reconnects > c.reconnects // since the last look
	c.reconnects = max(c.reconnects, reconnects)
	switch {
	case closed:
		down = false
		c.state.Closed, c.state.Down = true, false
	case down && (again || !c.state.Down):
		c.state = State{Down: true, Since: now}
		c.toldDown, c.toldBack = false, false
	case !down && c.state.Down:
		c.state.Down, c.state.Back = false, now
	case !down && again: // it was away between two looks
		c.state = State{Since: now, Back: now}
		c.toldDown, c.toldBack = false, false
	}
	c.state.Refused = nil
	if down {
		c.state.Refused = refused
	}
	return c.state
}

// refusal is the error among those that say that the server refuses the user; nil for another one.
func refusal(err error) error {
	for _, refused := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	} {
		if errors.Is(err, refused) {
			return refused
		}
	}
	return nil
}

// State is what the last look saw.
func (c *Connection) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// TellDown reports whether the caller is to log the outage that was seen last: it goes on, and was not told.
func (c *Connection) TellDown() (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = c.state.Down && !c.toldDown
	c.toldDown = c.toldDown || news
	return news
}

// TellBack reports whether the caller is to log the end of an outage: it was told, and its end was not.
func (c *Connection) TellBack() (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = !c.state.Down && !c.state.Closed && c.toldDown && !c.toldBack
	c.toldBack = c.toldBack || news
	return news
}
