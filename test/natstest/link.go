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
	cancel context.CancelFunc // of run, when the link is closed

	// vanished is closed when the link gets into a black hole. Then nothing is written to either side any more, FINs
	// included.
	vanished chan struct{}
	// writing is held during each write, per direction, and vanished is checked inside. So vanish can wait for a write.
	writing [2]sync.Mutex

	mu     sync.Mutex
	client *net.TCPConn
	server *net.TCPConn // nil until connected
}

type chunk struct {
	data []byte
	due  time.Time
}

// newLink returns a link and the context for run, which ends when the link is closed.
func newLink(target string, delay *atomic.Int64, client *net.TCPConn) (context.Context, *link) {
	ctx, cancel := context.WithCancel(context.Background())
	return ctx, &link{target: target, delay: delay, cancel: cancel, vanished: make(chan struct{}), client: client}
}

func (l *link) hasVanished() bool {
	select {
	case <-l.vanished:
		return true
	default:
		return false
	}
}

// run forwards until both sides are done or the link is closed. A link born in a black hole never reaches the server.
func (l *link) run(ctx context.Context) {
	defer l.close()
	if !l.hasVanished() && l.connect(ctx) == nil {
		var wg sync.WaitGroup
		wg.Go(func() { l.pump(ctx, 0, l.server, l.client) })
		wg.Go(func() { l.pump(ctx, 1, l.client, l.server) })
		wg.Wait()
	}
	l.closeUnlessVanished()
	<-ctx.Done()
}

func (l *link) connect(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.target)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if ctx.Err() != nil {
		l.server.Close()
	}
	return ctx.Err()
}

// pump forwards one direction. The end of src's stream ends only this direction, since the other may go on; an error
// ends the link.
func (l *link) pump(ctx context.Context, direction int, dst, src *net.TCPConn) {
	queue := make(chan chunk, inFlight)
	var wg sync.WaitGroup
	var readErr error
	wg.Go(func() {
		defer close(queue)
		readErr = l.read(ctx, queue, src)
	})
	writeErr := l.write(ctx, direction, dst, queue)
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

func (l *link) read(ctx context.Context, queue chan<- chunk, src *net.TCPConn) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			c := chunk{data: append([]byte(nil), buf[:n]...)}
			if d := l.delay.Load(); d > 0 {
				c.due = time.Now().Add(time.Duration(d))
			}
			select {
			case queue <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
}

// write goes on in a black hole, because a full buffer would tell the sender.
func (l *link) write(ctx context.Context, direction int, dst *net.TCPConn, queue <-chan chunk) error {
	for c := range queue {
		if !l.waitUntil(ctx, c.due) {
			return ctx.Err()
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

// waitUntil waits for the time and returns false if the link is closed before. In a black hole it does not wait.
func (l *link) waitUntil(ctx context.Context, due time.Time) bool {
	d := time.Until(due)
	if due.IsZero() || d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.vanished:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *link) unlessVanished(direction int, write func() error) error {
	l.writing[direction].Lock()
	defer l.writing[direction].Unlock()
	if l.hasVanished() {
		return nil
	}
	return write()
}

// vanish puts the link into a black hole. When it returns, no write is under way.
func (l *link) vanish() {
	l.mu.Lock()
	if !l.hasVanished() {
		close(l.vanished)
	}
	past := time.Unix(1, 0) // interrupts a write that is blocked by a full buffer
	_ = l.client.SetWriteDeadline(past)
	if l.server != nil {
		_ = l.server.SetWriteDeadline(past)
	}
	l.mu.Unlock()
	for i := range l.writing {
		l.writing[i].Lock()
		_ = l.hasVanished() // nothing to do: once we have the lock, the write is over
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
	if !l.hasVanished() {
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
