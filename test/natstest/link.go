package natstest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight is how many reads a direction of a link holds back at most while they are delayed.
const inFlight = 256

// link is one client's connection through a proxy.
type link struct {
	target string
	delay  *atomic.Int64
	ctx    context.Context // ends when the link is closed
	cancel context.CancelFunc

	// vanished means that the link is in a black hole: nothing is written to either side any more, FINs included.
	vanished atomic.Bool
	// writing is held during each write, per direction, with vanished checked inside: so vanish can wait for it.
	writing [2]sync.Mutex

	mu     sync.Mutex
	client *net.TCPConn
	server *net.TCPConn // nil until connected
}

type chunk struct {
	data []byte
	due  time.Time
}

func newLink(target string, delay *atomic.Int64, client *net.TCPConn) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{target: target, delay: delay, ctx: ctx, cancel: cancel, client: client}
}

// run forwards until both sides are done or the link is closed. A link born in a black hole never reaches the server.
func (l *link) run(vanished bool) {
	defer l.close()
	if vanished {
		l.vanished.Store(true)
	} else if err := l.connect(); err == nil {
		var wg sync.WaitGroup
		wg.Go(func() { l.pump(0, l.server, l.client) })
		wg.Go(func() { l.pump(1, l.client, l.server) })
		wg.Wait()
	}
	l.closeUnlessVanished()
	<-l.ctx.Done()
}

func (l *link) connect() error {
	conn, err := new(net.Dialer).DialContext(l.ctx, "tcp", l.target)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if l.ctx.Err() != nil {
		l.server.Close()
	}
	return l.ctx.Err()
}

// pump forwards one direction. The end of src's stream is passed on alone, since the other direction may go on; an error
// ends the link.
func (l *link) pump(direction int, dst, src *net.TCPConn) {
	queue := make(chan chunk, inFlight)
	var wg sync.WaitGroup
	var readErr error
	wg.Go(func() {
		defer close(queue)
		readErr = l.read(queue, src)
	})
	writeErr := l.write(direction, dst, queue)
	if writeErr != nil {
		l.closeUnlessVanished()
		for range queue { // until the reader sees that the link is closed, or the black hole ends
		}
	}
	wg.Wait()
	if writeErr == nil && errors.Is(readErr, io.EOF) {
		writeErr = l.unlessVanished(direction, dst.CloseWrite)
		readErr = nil
	}
	if writeErr != nil || readErr != nil {
		l.closeUnlessVanished()
	}
}

func (l *link) read(queue chan<- chunk, src *net.TCPConn) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		// In a black hole too src is read: the sender must not find out by a full buffer.
		if n > 0 && !l.vanished.Load() {
			c := chunk{data: append([]byte(nil), buf[:n]...)}
			if d := l.delay.Load(); d > 0 {
				c.due = time.Now().Add(time.Duration(d))
			}
			select {
			case queue <- c:
			case <-l.ctx.Done():
				return l.ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
}

func (l *link) write(direction int, dst *net.TCPConn, queue <-chan chunk) error {
	for c := range queue {
		if !l.waitUntil(c.due) {
			return l.ctx.Err()
		}
		err := l.unlessVanished(direction, func() error {
			_, err := dst.Write(c.data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waitUntil is false if the link was closed before.
func (l *link) waitUntil(due time.Time) bool {
	d := time.Until(due)
	if due.IsZero() || d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (l *link) unlessVanished(direction int, write func() error) error {
	l.writing[direction].Lock()
	defer l.writing[direction].Unlock()
	if l.vanished.Load() {
		return nil
	}
	return write()
}

// vanish puts the link into a black hole. When it returns, no write is under way.
func (l *link) vanish() {
	l.mu.Lock()
	l.vanished.Store(true)
	past := time.Unix(1, 0) // interrupts a write that is blocked by a full buffer
	_ = l.client.SetWriteDeadline(past)
	if l.server != nil {
		_ = l.server.SetWriteDeadline(past)
	}
	l.mu.Unlock()
	for i := range l.writing {
		l.writing[i].Lock()
		_ = l.vanished.Load() // nothing to do: having got the lock is the point
		l.writing[i].Unlock()
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}

// closeUnlessVanished closes the link for a reason seen on one side. In a black hole the other side must not see it.
func (l *link) closeUnlessVanished() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.vanished.Load() {
		l.closeLocked()
	}
}

func (l *link) closeLocked() {
	l.cancel()
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}
