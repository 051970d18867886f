package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
)

// Proxy stands between clients and a server, and can be told to misbehave. Its methods may be called by several
// goroutines at once, and take effect before they return.
//
// Outside of [Test] it is a TCP proxy, which forwards bytes and knows nothing of NATS, so TLS passes too. In virtual time
// it reads the operations of the protocol, so single messages may be lost or late (see [Proxy.Tamper]); a connection that
// could never be answered is refused there instead, and handshakes are not delayed, because nats.go holds a lock over its
// connecting, and virtual time stands still while others wait for a lock.
//
// A client that should stay behind the proxy must not learn another address from the server. The servers of this
// package tell none. With other servers use the option nats.IgnoreDiscoveredServers.
type Proxy struct {
	target string
	port   int
	wire   wire

	mu       sync.Mutex
	state    proxyState
	listener net.Listener // nil while refusing, and in virtual time
	virtual  bool
	accepts  sync.WaitGroup
}

type proxyState int

const (
	forwarding proxyState = iota
	refusing
	proxyClosed
)

// NewProxy starts a proxy to target, which is host:port or the URL of one server. It connects to the target anew for
// each client, so the target may be down or restart. The caller must call Close. In a test, [StartProxy] does.
func NewProxy(target string) (*Proxy, error) {
	address, err := targetAddress(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: address, virtual: isVirtual()}
	if p.virtual {
		p.wire.reads = operations
		p.port = network.port()
		network.listen(p.port, p.acceptVirtual)
		return p, nil
	}
	if p.port, err = ports.Claim(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listenLocked(); err != nil {
		ports.Release(p.port)
		return nil, err
	}
	return p, nil
}

// StartProxy starts a proxy as [NewProxy] does, and closes it when the test and its subtests are complete.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func targetAddress(target string) (string, error) {
	address := target
	if strings.Contains(target, "://") {
		u, err := url.Parse(target)
		if err != nil {
			return "", fmt.Errorf("proxy target: %w", err)
		}
		address = u.Host
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("proxy target %s: %w", target, err)
	}
	return address, nil
}

// URL returns the address for clients. It stays the same for the proxy's whole life.
func (p *Proxy) URL() string { return "nats://" + ports.Address(p.port) }

// Connections returns how many client connections are open now, those in a black hole included.
func (p *Proxy) Connections() int { return p.wire.connections() }

// Cut closes every connection, on both sides. It does not change what happens to new ones: normally they are accepted.
func (p *Proxy) Cut() { p.wire.cut(everyLink) }

// Refuse closes every connection, and new ones are refused until Resume, as by a system where nothing listens.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == proxyClosed {
		return
	}
	p.state = refusing
	p.stopListeningLocked()
	p.wire.cut(everyLink)
}

// Blackhole makes every connection half-open until Resume, in both directions or in those that are named. From now on
// bytes vanish, those on their way included, and who would get them does not learn when the other side closes. New
// connections are accepted and never answered. Only timeouts show it: a NATS client notices after
// MaxPingsOutstanding+1 ping intervals, which is 6 minutes unless set.
func (p *Proxy) Blackhole(directions ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == proxyClosed {
		return
	}
	p.state = forwarding
	p.mustListenLocked()
	for _, direction := range orBoth(directions) {
		p.wire.blackhole(direction)
	}
}

// Delay holds back every byte, in both directions or in those that are named, for d: a round trip takes 2d longer. Order
// and throughput stay. It applies to bytes that arrive after the call, and until the next one; 0, as at the start, is no
// delay.
func (p *Proxy) Delay(d time.Duration, directions ...Direction) {
	for _, direction := range orBoth(directions) {
		p.wire.setDelay(direction, d)
	}
}

// Hold keeps back every byte until Resume, in both directions or in those that are named. Nothing is lost.
func (p *Proxy) Hold(directions ...Direction) {
	for _, direction := range orBoth(directions) {
		p.wire.hold(direction)
	}
}

func orBoth(directions []Direction) []Direction {
	if len(directions) == 0 {
		return []Direction{ToServer, FromServer}
	}
	return directions
}

// Tamper asks decide what becomes of each message, in both directions, from now on until the next call; nil lets all pass,
// as at the start. decide is called by several goroutines, but never by two at once, so while it waits no message goes on;
// [Fate].Late lets one wait. It works in virtual time only; elsewhere see the option [Tamper].
func (p *Proxy) Tamper(decide func(*Message) Fate) {
	if !p.virtual {
		panic("natstest: Proxy.Tamper works in virtual time only, see natstest.Test")
	}
	if decide != nil {
		decide = oneAtATime(decide)
	}
	p.wire.setTamper(decide)
}

func oneAtATime(decide func(*Message) Fate) func(*Message) Fate {
	turn := make(chan struct{}, 1) // not a mutex: time would stand still for who waits for that
	return func(m *Message) Fate {
		turn <- struct{}{}
		defer func() { <-turn }()
		return decide(m)
	}
}

// Resume ends Refuse, Blackhole and Hold: new connections work again, those in a black hole are closed, and what was held
// goes on. A delay stays, and so does who tampers.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == proxyClosed {
		return
	}
	p.state = forwarding
	p.wire.leaveHoles()
	p.wire.release()
	p.mustListenLocked()
}

// Close closes every connection and returns when all goroutines of the proxy have ended. Closing twice does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	closed := p.state == proxyClosed
	p.state = proxyClosed
	p.stopListeningLocked()
	p.mu.Unlock()
	p.accepts.Wait()
	p.wire.cut(everyLink)
	p.wire.running.Wait()
	if closed {
		return
	}
	if p.virtual {
		network.unlisten(p.port)
		return
	}
	ports.Release(p.port)
}

func (p *Proxy) acceptVirtual() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != forwarding || p.wire.isSilent() {
		return nil, fmt.Errorf("dial %s in virtual time: %w", p.URL(), errRefused)
	}
	server, err := network.dial(p.target)
	if err != nil {
		return nil, err
	}
	client, ours := Pipe()
	p.wire.carry(ours, func() (net.Conn, error) { return server, nil })
	return client, nil
}

func (p *Proxy) stopListeningLocked() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// mustListenLocked panics if another program took the port while the proxy refused connections. No caller could do
// anything about it, and a test must not go on without its proxy.
func (p *Proxy) mustListenLocked() {
	if err := p.listenLocked(); err != nil {
		panic(fmt.Sprintf("natstest: proxy to %s: %v", p.target, err))
	}
}

func (p *Proxy) listenLocked() error {
	if p.listener != nil || p.virtual {
		return nil
	}
	err := retry(portWait, func() (err error) {
		p.listener, err = net.Listen("tcp", ports.Address(p.port))
		return err
	})
	if err != nil {
		p.listener = nil
		return fmt.Errorf("listen for the proxy's clients: %w", err)
	}
	listener := p.listener
	p.accepts.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed by Refuse or Close
		}
		p.mu.Lock()
		if p.listener == listener {
			p.wire.carry(conn, func() (net.Conn, error) { return net.Dial("tcp", p.target) })
		} else {
			conn.Close()
		}
		p.mu.Unlock()
	}
}
