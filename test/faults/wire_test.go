package faults

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// wire is the only way of a replica to the server. It dials for the replica's connection, reads each operation in both
// directions, and does what the director says to messages for buckets.
type wire struct {
	replica  string
	director *director

	mu    sync.Mutex
	links map[*link]struct{}
	dead  bool
	gate  chan struct{} // closed while bytes may pass
	wg    sync.WaitGroup
}

func newWire(replica string, d *director) *wire {
	w := &wire{replica: replica, director: d, links: map[*link]struct{}{}, gate: make(chan struct{})}
	close(w.gate)
	return w
}

var errDead = errors.New("this replica has crashed")

// Dial implements nats.CustomDialer.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	server, err := natstest.Dial(network, address)
	if err != nil {
		return nil, err
	}
	theirs, ours := natstest.Pipe()
	l := &link{
		wire: w, client: ours, server: server, out: bufio.NewWriter(server),
		queue: make(chan operation, longestQueue), closed: make(chan struct{}),
		subscriptions: map[string]string{}, sent: map[string]sent{},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		server.Close()
		return nil, errDead
	}
	w.links[l] = struct{}{}
	for _, run := range []func() error{l.read, l.forward, l.deliver} {
		w.wg.Go(func() {
			defer l.close()
			_ = run() // the other side notices that the link is closed
		})
	}
	return theirs, nil
}

// die is a crash: nothing more reaches the server, nor the replica.
func (w *wire) die() {
	w.mu.Lock()
	w.dead = true
	links := w.links
	w.links = nil
	w.mu.Unlock()
	for l := range links {
		l.close()
	}
	w.director.crashed(w.replica)
}

// hold keeps all bytes back until release.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = make(chan struct{})
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gate)
}

// passGate returns when bytes may pass; false if the link is closed.
func (l *link) passGate() bool {
	l.wire.mu.Lock()
	gate := l.wire.gate
	l.wire.mu.Unlock()
	select {
	case <-gate:
	case <-l.closed:
	}
	select {
	case <-l.closed:
		return false
	default:
		return true
	}
}

// longestQueue is how many operations of a client are held back at most. Its connection must not notice the pause.
const longestQueue = 1 << 12

// link is one connection of a replica.
type link struct {
	wire   *wire
	client net.Conn
	server net.Conn
	out    *bufio.Writer // to the server
	queue  chan operation
	closed chan struct{}
	once   sync.Once

	subscriptions map[string]string // id by subject; only of forward

	writing sync.Mutex // to the client
	mu      sync.Mutex
	sent    map[string]sent // by reply subject
}

// sent is a message whose answer is awaited.
type sent struct {
	message
	cell cell
	hit  bool
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		l.client.Close()
		l.server.Close()
	})
}

// read takes what the client sends.
func (l *link) read() error {
	in := bufio.NewReader(l.client)
	for {
		o, err := readOperation(in)
		if err != nil {
			return err
		}
		if o.is("PUB") && strings.HasPrefix(o.fields[1], "$KV.") {
			o.tag(l.wire.replica, l.wire.director.holding())
		}
		select {
		case l.queue <- o:
		case <-l.closed:
			return nil
		}
	}
}

// forward hands it on to the server.
func (l *link) forward() error {
	for {
		var o operation
		select {
		case o = <-l.queue:
		case <-l.closed:
			return nil
		}
		if !l.passGate() {
			return nil
		}
		if o.is("SUB") {
			l.subscriptions[o.fields[1]] = o.fields[len(o.fields)-1]
		}
		if o.is("PUB") && !l.publish(&o) {
			continue
		}
		if !l.passGate() { // the message itself may have begun a pause, or was the last one
			return nil
		}
		if _, err := l.out.Write(o.bytes()); err != nil {
			return err
		}
		if len(l.queue) == 0 {
			if err := l.out.Flush(); err != nil {
				return err
			}
		}
	}
}

// publish does what the director says, and reports whether the server gets the message.
func (l *link) publish(o *operation) bool {
	subject, reply := o.published()
	bucket, key, ok := splitSubject(subject)
	if !ok {
		return true
	}
	m := message{bucket: bucket, key: key, marker: o.isMarker(), value: o.data}
	d := l.wire.director
	c, hit := d.meets(m)
	switch c.fault {
	case crashBefore:
		d.happened(c, true)
		l.wire.die()
		return false
	case noRoom:
		l.answer(reply, "KV_"+bucket, 503, 10077, "maximum bytes exceeded")
	case exhausted:
		l.answer(reply, "KV_"+bucket, 503, 10023, "insufficient resources")
	case noRights:
		l.tell(fmt.Sprintf("-ERR 'Permissions Violation for Publish to %q'\r\n", subject))
	case paused, pausedLong:
		d.hold(l.wire, m, c.fault == pausedLong)
		d.happened(c, true)
		hit = false
		fallthrough
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sent[reply] = sent{m, c, hit}
		return true
	}
	d.happened(c, true)
	return false
}

// answer plays a stream that refuses a message.
func (l *link) answer(reply, stream string, code, errCode int, description string) {
	for subject, id := range l.subscriptions {
		prefix, wildcard := strings.CutSuffix(subject, "*")
		if subject == reply || wildcard && strings.HasPrefix(reply, prefix) {
			o := operation{fields: []string{"MSG", reply, id}, message: true, data: fmt.Appendf(nil,
				`{"error":{"code":%d,"err_code":%d,"description":%q},"stream":%q,"seq":0}`,
				code, errCode, description, stream)}
			l.tell(string(o.bytes()))
			return
		}
	}
}

// tell writes to the client.
func (l *link) tell(text string) {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, _ = l.client.Write([]byte(text)) // it fails on a closed link only
}

// deliver hands on to the client what the server sends.
func (l *link) deliver() error {
	in := bufio.NewReader(l.server)
	for {
		o, err := readOperation(in)
		if err != nil {
			return err
		}
		if !l.passGate() {
			return nil
		}
		if o.is("MSG") && !l.acknowledge(&o) {
			continue
		}
		if !l.passGate() {
			return nil
		}
		l.tell(string(o.bytes()))
	}
}

// acknowledge reports whether the client gets the answer to its message.
func (l *link) acknowledge(o *operation) bool {
	l.mu.Lock()
	s, ok := l.sent[o.fields[1]]
	delete(l.sent, o.fields[1])
	l.mu.Unlock()
	if !ok {
		return true
	}
	d, stored := l.wire.director, isStored(o.data)
	if stored {
		d.stored(l.wire.replica, s.message)
	}
	if !s.hit {
		return true
	}
	if !stored {
		d.happened(s.cell, false)
		return true
	}
	switch s.cell.fault {
	case crashAfter:
		d.happened(s.cell, true)
		l.wire.die()
		return false
	case vanished:
		d.vanish(s.message)
	}
	d.happened(s.cell, true)
	return s.cell.fault != lostAck
}
