package natstest

import (
	"bufio"
	"net"
	"slices"
	"sync"
	"time"
)

// link is one client's connection through a proxy.
//
// In each direction a reader takes what one end sends, and a writer hands it to the other end when it is due. In a black
// hole the reader goes on, because a full buffer would tell the sender. In virtual time no sender ever waits.
type link struct {
	wire   *wire
	ends   [2]net.Conn // of the client and of the server: the direction's source
	queues [2]queue
	late   [2]lateParcels

	closing   sync.Once
	closed    chan struct{} // both ends are closed, or will be as soon as they are there
	finished  [2]chan struct{}
	connected chan struct{} // the server's end is there

	mu       sync.Mutex
	vanished [2]bool // bytes of this direction go nowhere
	greeted  bool    // the handshake is over
	requests requests
}

// inFlight is how many reads a direction of a link holds back at most, outside of virtual time.
const inFlight = 256

// parcel is what is handed on as a whole.
type parcel struct {
	data     []byte
	due      time.Time
	greeting bool // part of the handshake, which is neither delayed nor held: nats.go holds a lock over it
	cut      bool // the link is closed when it is handed on
}

// lateParcels are those of one direction that come late, in the order of their times.
type lateParcels struct {
	mu      sync.Mutex
	parcels []lateParcel
}

type lateParcel struct {
	parcel
	at time.Time
}

func newLink(w *wire, client net.Conn) *link {
	l := &link{wire: w, closed: make(chan struct{}), connected: make(chan struct{})}
	l.ends[ToServer] = client
	for i := range l.queues {
		l.queues[i].added, l.queues[i].taken = make(chan struct{}, 1), make(chan struct{}, 1)
		l.finished[i] = make(chan struct{})
	}
	return l
}

// run forwards until one side is done or the link is closed. A link born in a black hole never reaches the server.
func (l *link) run(connect func() (net.Conn, error)) {
	if !l.hasVanished(ToServer) || !l.hasVanished(FromServer) {
		server, err := connect()
		if err != nil {
			l.close()
			return
		}
		l.join(server)
	}
	var wg sync.WaitGroup
	for direction := range l.ends {
		if l.ends[direction] == nil {
			continue
		}
		wg.Go(func() { l.read(Direction(direction)) })
		wg.Go(func() { l.write(Direction(direction)) })
	}
	<-l.closed
	wg.Wait()
}

// join has the server's end, which is closed if the link was meanwhile.
func (l *link) join(server net.Conn) {
	l.ends[FromServer] = server
	close(l.connected)
	select {
	case <-l.closed:
		server.Close()
	default:
	}
}

// read takes what one end sends until its stream ends. Then the link is closed, after the other end has what came before;
// in a black hole the other end does not learn of it.
func (l *link) read(direction Direction) {
	defer l.queues[direction].end()
	if l.wire.reads == bytesOnly {
		l.readBytes(direction)
	} else {
		l.readOperations(direction)
	}
}

func (l *link) readBytes(direction Direction) {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.ends[direction].Read(buf)
		if n > 0 {
			l.forward(direction, parcel{data: append([]byte(nil), buf[:n]...)})
		}
		if err != nil {
			return
		}
	}
}

func (l *link) readOperations(direction Direction) {
	in := bufio.NewReader(l.ends[direction])
	for {
		o, err := readOperation(in)
		if err != nil {
			return
		}
		l.pass(direction, o)
	}
}

// pass hands on an operation as the proxy's tamperer wants.
func (l *link) pass(direction Direction, o *operation) {
	fate := l.fateOf(direction, o)
	p := parcel{data: o.bytes(), cut: fate.Cut, greeting: l.isGreeting(direction, o)}
	switch {
	case fate.Lost && fate.Cut:
		p.data = nil
	case fate.Lost:
		return
	case fate.Twice:
		p.data = append(p.data, p.data...)
	}
	if fate.Late > 0 {
		l.forwardLate(direction, p, fate.Late)
	} else {
		l.forward(direction, p)
	}
}

// isGreeting reports whether an operation is part of the handshake, which ends with the server's first PONG.
func (l *link) isGreeting(direction Direction, o *operation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	greeting := !l.greeted
	if direction == FromServer && o.isPong() {
		l.greeted = true
	}
	return greeting
}

// forwardLate queues a parcel after d. Those that are due at one time keep their order.
func (l *link) forwardLate(direction Direction, p parcel, d time.Duration) {
	at := time.Now().Add(d)
	late := &l.late[direction]
	late.mu.Lock()
	defer late.mu.Unlock()
	i, _ := slices.BinarySearchFunc(late.parcels, at, func(one lateParcel, at time.Time) int {
		if one.at.After(at) {
			return 1
		}
		return -1
	})
	late.parcels = slices.Insert(late.parcels, i, lateParcel{p, at})
	time.AfterFunc(d, func() {
		late.mu.Lock()
		defer late.mu.Unlock()
		first := late.parcels[0]
		late.parcels = late.parcels[1:]
		l.forward(direction, first.parcel)
	})
}

func (l *link) fateOf(direction Direction, o *operation) Fate {
	tamper := l.wire.tamperer()
	if !o.isMessage() {
		return Fate{}
	}
	l.mu.Lock()
	request := ""
	if direction == FromServer {
		request = l.requests.of(o.fields[1])
	} else if i := o.replyField(); len(o.fields) > i {
		l.requests.sent(o.fields[i], o.fields[1])
	}
	l.mu.Unlock()
	if tamper == nil {
		return Fate{}
	}
	m, err := o.message()
	if err != nil {
		panic(err) // neither nats.go nor nats-server sends such a thing
	}
	message := &Message{Msg: m, Direction: direction, Request: request, header: o.header}
	fate := tamper(message)
	o.data, o.header = m.Data, message.header
	if i := o.replyField(); direction == FromServer && len(o.fields) > i {
		o.fields[i] = m.Reply
	}
	return fate
}

// forward queues a parcel.
func (l *link) forward(direction Direction, p parcel) {
	if l.hasVanished(direction) {
		return
	}
	if d := l.wire.delayOf(direction); d > 0 && !p.greeting {
		p.due = time.Now().Add(d)
	}
	q := &l.queues[direction]
	for l.wire.reads == bytesOnly && q.length() >= inFlight && !l.hasVanished(direction) {
		if !l.wait(q.taken) {
			return
		}
	}
	q.add(p)
}

// write hands on what was queued, until the source's stream has ended or the link is closed.
func (l *link) write(direction Direction) {
	q := &l.queues[direction]
	to := l.ends[1-direction]
	for {
		p, state := q.first()
		switch {
		case state == queueEnded:
			l.finish(direction)
			return
		case state == queueEmpty:
			if !l.wait(q.added) {
				return
			}
			continue
		case !p.greeting && !l.waitUntil(p.due, direction):
			return
		}
		q.drop()
		if l.hasVanished(direction) {
			continue
		}
		_, err := to.Write(p.data)
		if p.cut || err != nil && !l.hasVanished(direction) {
			l.close()
			return
		}
	}
}

// finish tells the other end that nothing more comes, if it can still send, and closes the link if it cannot. In a black
// hole the other end does not learn of it.
func (l *link) finish(direction Direction) {
	if l.hasVanished(direction) {
		return
	}
	close(l.finished[direction])
	half, ok := l.ends[1-direction].(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		l.close()
		return
	}
	select {
	case <-l.finished[1-direction]:
		l.close()
	default:
	}
}

// wait returns false when the link is closed before.
func (l *link) wait(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-l.closed:
		return false
	}
}

// waitUntil waits until a parcel is due and its direction is not held. It returns false when the link is closed before.
func (l *link) waitUntil(due time.Time, direction Direction) bool {
	if d := time.Until(due); !due.IsZero() && d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.closed:
			return false
		}
	}
	for held := l.wire.heldIn(direction); held != nil; held = l.wire.heldIn(direction) {
		if !l.wait(held) {
			return false
		}
	}
	return true
}

func (l *link) hasVanished(direction Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vanished[direction]
}

// vanish puts a direction of the link into a black hole.
func (l *link) vanish(direction Direction) {
	l.mu.Lock()
	l.vanished[direction] = true
	l.mu.Unlock()
	l.queues[direction].clear()
	select {
	case <-l.connected: // interrupts a write that is blocked by a full buffer of the system
		_ = l.ends[1-direction].SetWriteDeadline(time.Unix(1, 0))
	default:
	}
}

func (l *link) close() {
	l.closing.Do(func() {
		close(l.closed)
		l.ends[ToServer].Close()
		select {
		case <-l.connected:
			l.ends[FromServer].Close()
		default:
		}
	})
}

// queue has what was read and not handed on yet. It has one reader.
type queue struct {
	added chan struct{} // holds one: something was added, or the end
	taken chan struct{} // holds one: something was taken

	mu      sync.Mutex
	parcels []parcel
	ended   bool
}

type queueState int

const (
	queueHas queueState = iota
	queueEmpty
	queueEnded
)

func (q *queue) add(p parcel) {
	q.mu.Lock()
	q.parcels = append(q.parcels, p)
	q.mu.Unlock()
	tell(q.added)
}

func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	tell(q.added)
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.parcels)
}

func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (q *queue) first() (parcel, queueState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.parcels) > 0:
		return q.parcels[0], queueHas
	case q.ended:
		return parcel{}, queueEnded
	}
	return parcel{}, queueEmpty
}

// drop removes the first parcel, unless a black hole has taken it meanwhile.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parcels) > 0 {
		q.parcels[0] = parcel{}
		q.parcels = q.parcels[1:]
	}
	tell(q.taken)
}

func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parcels = nil
	tell(q.taken)
}
