package cloudtest

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// memory has the APIs of this process by address. They listen in memory and not on a socket, since virtual time does not
// move while a goroutine waits for a socket.
var memory struct {
	sync.Mutex
	last      int
	listeners map[string]*memoryListener
}

// memoryListener accepts the connections that a Driver dials.
type memoryListener struct {
	address string
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func listen() *memoryListener {
	memory.Lock()
	defer memory.Unlock()
	memory.last++
	l := &memoryListener{address: fmt.Sprintf("cloud-%d:80", memory.last),
		dialled: make(chan net.Conn), closed: make(chan struct{})}
	if memory.listeners == nil {
		memory.listeners = map[string]*memoryListener{}
	}
	memory.listeners[l.address] = l
	return l
}

// Accept implements net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialled:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *memoryListener) Close() error {
	l.once.Do(func() {
		memory.Lock()
		defer memory.Unlock()
		delete(memory.listeners, l.address)
		close(l.closed)
	})
	return nil
}

// Addr implements net.Listener.
func (l *memoryListener) Addr() net.Addr { return l }

// Network implements net.Addr.
func (l *memoryListener) Network() string { return "memory" }

// String implements net.Addr.
func (l *memoryListener) String() string { return l.address }

// dial connects to an API of this process. Elsewhere it connects as any program does.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	memory.Lock()
	l := memory.listeners[address]
	memory.Unlock()
	if l == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	client, server := net.Pipe()
	select {
	case l.dialled <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: network, Addr: l, Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
