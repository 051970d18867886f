package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
)

// Proxy is a TCP proxy in front of a server that can be told to misbehave. It forwards bytes and knows nothing of
// NATS, so TLS passes too. Its methods may be called by several goroutines at once, and take effect before they
// return.
//
// A client that should stay behind the proxy must not learn another address from the server. The servers of this
// package tell none. With other servers use the option nats.IgnoreDiscoveredServers.
type Proxy struct {
	target string
	port   int
	delay  atomic.Int64

	mu       sync.Mutex
	state    proxyState
	listener net.Listener // nil while refusing
	links    map[*link]struct{}
	wg       sync.WaitGroup // the accept loop and the links
}

type proxyState int

const (
	forwarding proxyState = iota
	refusing
	blackholed
	proxyClosed
)

// NewProxy starts a proxy to target, which is host:port or the URL of one server. It connects to the target anew for
// each client, so the target may be down or restart. The caller must call Close. In a test, [StartProxy] does.
func NewProxy(target string) (*Proxy, error) {
	address, err := targetAddress(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: address, links: map[*link]struct{}{}}
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
		return "", fmt.Errorf("proxy target %q is neither host:port nor the URL of one server: %w", target, err)
	}
	return address, nil
}

// URL returns the address for clients. It stays the same for the proxy's whole life.
func (p *Proxy) URL() string { return "nats://" + ports.Address(p.port) }

// Connections returns how many client connections are open now, those in a black hole included.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut closes every connection, on both sides. It does not change what happens to new ones: normally they are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLinksLocked(func(*link) bool { return true })
}

// Refuse closes every connection, and lets the operating system refuse new ones until Resume.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == proxyClosed {
		return
	}
	p.state = refusing
	p.stopListeningLocked()
	p.closeLinksLocked(func(*link) bool { return true })
}

// Blackhole makes every connection half-open until Resume. From now on bytes vanish in both directions, those on their
// way included, and neither side learns when the other closes. New connections are accepted and never answered. Only
// timeouts show it: a NATS client notices after MaxPingsOutstanding+1 ping intervals, which is 6 minutes unless set.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == proxyClosed {
		return
	}
	p.state = blackholed
	p.mustListenLocked()
	for l := range p.links {
		l.vanish()
	}
}

// Delay holds back every byte, in both directions, for d: a round trip takes 2d longer. Order and throughput stay. It
// applies to bytes that arrive after the call, and until the next one; 0, as at the start, is no delay.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Resume ends Refuse and Blackhole: new connections work again, and those in the black hole are closed. A delay stays.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == proxyClosed {
		return
	}
	p.state = forwarding
	p.mustListenLocked()
	p.closeLinksLocked((*link).hasVanished)
}

// Close closes every connection and returns when all goroutines of the proxy have ended. Closing twice does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	closed := p.state == proxyClosed
	p.state = proxyClosed
	p.stopListeningLocked()
	p.closeLinksLocked(func(*link) bool { return true })
	p.mu.Unlock()
	p.wg.Wait()
	if !closed {
		ports.Release(p.port)
	}
}

func (p *Proxy) closeLinksLocked(which func(*link) bool) {
	for l := range p.links {
		if which(l) {
			l.close()
			delete(p.links, l)
		}
	}
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
	if p.listener != nil {
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
	p.wg.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed by Refuse or Close
		}
		p.mu.Lock()
		if p.listener != listener {
			conn.Close()
			p.mu.Unlock()
			continue
		}
		ctx, l := newLink(p.target, &p.delay, conn.(*net.TCPConn))
		p.links[l] = struct{}{}
		if p.state == blackholed {
			l.vanish()
		}
		p.wg.Go(func() {
			l.run(ctx)
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
		})
		p.mu.Unlock()
	}
}
