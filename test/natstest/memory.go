package natstest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Pipe returns both ends of a connection in memory, for a wire of the test's own. Unlike with net.Pipe a write never waits
// for the reader, as if the system's buffers had no end: nats.go writes with its lock held, and who waits for a lock stops
// virtual time.
func Pipe() (a, b net.Conn) {
	there, back := newBuffer(), newBuffer()
	return &memoryConn{in: back, out: there}, &memoryConn{in: there, out: back}
}

// memoryConn is one end of a connection in memory.
type memoryConn struct{ in, out *buffer }

func (c *memoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions: the other end reads what was written before, and then io.EOF.
func (c *memoryConn) Close() error {
	c.in.abandon()
	c.out.end()
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr                { return memoryAddr{} }
func (c *memoryConn) RemoteAddr() net.Addr               { return memoryAddr{} }
func (c *memoryConn) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }
func (c *memoryConn) SetReadDeadline(t time.Time) error  { c.in.setDeadline(t); return nil }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return nil } // a write does not wait

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// buffer is one direction of a connection in memory.
type buffer struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	ended   bool // by the writer
	left    bool // by the reader
	timer   *time.Timer
	late    bool // the reader's deadline has passed
}

func newBuffer() *buffer {
	b := &buffer{}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *buffer) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.left:
			return 0, net.ErrClosed
		case b.late:
			return 0, os.ErrDeadlineExceeded
		case len(b.data) > 0:
			n := copy(p, b.data)
			if b.data = b.data[n:]; len(b.data) == 0 {
				b.data = nil
			}
			return n, nil
		case b.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		b.changed.Wait()
	}
}

func (b *buffer) write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return 0, net.ErrClosed
	case b.left:
		return 0, io.ErrClosedPipe
	}
	b.data = append(b.data, p...)
	b.changed.Broadcast()
	return len(p), nil
}

func (b *buffer) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.changed.Broadcast()
}

func (b *buffer) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.data = true, nil
	b.stopLocked()
	b.changed.Broadcast()
}

func (b *buffer) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked()
	b.late = false
	if t.IsZero() || b.left {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		b.late = true
		b.changed.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.timer == timer {
			b.late = true
			b.changed.Broadcast()
		}
	})
	b.timer = timer
}

func (b *buffer) stopLocked() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}
