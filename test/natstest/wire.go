package natstest

import (
	"net"
	"sync"
	"time"
)

// wire has the links of one proxy, or those of a server in virtual time, and what is wrong with them.
type wire struct {
	reads readMode

	mu     sync.Mutex
	links  map[*link]struct{}
	delay  [2]time.Duration
	held   [2]chan struct{} // nil, or closed on release
	hole   [2]bool          // links get into it, and are born in it
	tamper func(*Message) Fate

	running sync.WaitGroup
}

// readMode is how a wire reads what it carries.
type readMode int

const (
	bytesOnly  readMode = iota // of any protocol, TLS included
	operations                 // of NATS
)

// carry makes a link between a client and what connect connects to, which runs until it is closed.
func (w *wire) carry(client net.Conn, connect func() (net.Conn, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := newLink(w, client)
	l.vanished = w.hole
	if w.links == nil {
		w.links = map[*link]struct{}{}
	}
	w.links[l] = struct{}{}
	w.running.Go(func() {
		l.run(connect)
		w.mu.Lock()
		delete(w.links, l)
		w.mu.Unlock()
	})
}

func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.links)
}

// cut closes the links that are selected.
func (w *wire) cut(selected func(*link) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		if selected(l) {
			l.close()
			delete(w.links, l)
		}
	}
}

func everyLink(*link) bool { return true }

func inAHole(l *link) bool { return l.hasVanished(ToServer) || l.hasVanished(FromServer) }

func (w *wire) blackhole(direction Direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hole[direction] = true
	for l := range w.links {
		l.vanish(direction)
	}
}

func (w *wire) leaveHoles() {
	w.mu.Lock()
	w.hole = [2]bool{}
	w.mu.Unlock()
	w.cut(inAHole)
}

func (w *wire) hold(direction Direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[direction] == nil {
		w.held[direction] = make(chan struct{})
	}
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for direction, held := range w.held {
		if held != nil {
			close(held)
			w.held[direction] = nil
		}
	}
}

func (w *wire) heldIn(direction Direction) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[direction]
}

func (w *wire) setDelay(direction Direction, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay[direction] = d
}

func (w *wire) delayOf(direction Direction) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay[direction]
}

func (w *wire) setTamper(f func(*Message) Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tamper = f
}

func (w *wire) tamperer() func(*Message) Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tamper
}

// isSilent reports whether a new connection would never be answered.
func (w *wire) isSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for direction := range w.hole {
		if w.hole[direction] || w.held[direction] != nil {
			return true
		}
	}
	return false
}
