package natstest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// quiet is how long a test listens for bytes that must not come.
const quiet = 100 * time.Millisecond

// pair is a plain TCP connection through a proxy, seen from both ends.
type pair struct {
	proxy          *natstest.Proxy
	listener       net.Listener
	client, server net.Conn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &pair{proxy: natstest.StartProxy(t, l.Addr().String()), listener: l}
	p.client, p.server = p.connect(t)
	return p
}

func (p *pair) connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client = dialProxy(t, p.proxy)
	server, err := p.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

func proxyAddress(t *testing.T, p *natstest.Proxy) string {
	t.Helper()
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func dialProxy(t *testing.T, p *natstest.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", proxyAddress(t, p))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, c net.Conn, data string) {
	t.Helper()
	if _, err := c.Write([]byte(data)); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

// expectSilence fails if a byte, an end or an error of the connection arrives.
func expectSilence(t *testing.T, c net.Conn) { expectSilenceFor(t, c, quiet) }

func expectSilenceFor(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func expectClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want a closed connection", n, err)
	}
}

func TestProxyForwardsEveryByteInOrder(t *testing.T) {
	p := newPair(t)
	data := make([]byte, 8<<20)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	var wg sync.WaitGroup
	for _, ends := range [][2]net.Conn{{p.client, p.server}, {p.server, p.client}} {
		wg.Go(func() { _, _ = ends[0].Write(data) })
		wg.Go(func() {
			got := make([]byte, len(data))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("data changed on its way: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestEndOfOneDirectionLeavesTheOtherOpen(t *testing.T) {
	p := newPair(t)
	send(t, p.client, "last")
	if err := p.client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expect(t, p.server, "last")
	expectClosed(t, p.server)
	send(t, p.server, "answer")
	expect(t, p.client, "answer")
	p.server.Close()
	expectClosed(t, p.client)
	eventually(t, 10*time.Second, func(context.Context) error { return noConnections(p.proxy) })
}

func noConnections(p *natstest.Proxy) error {
	if p.Connections() != 0 {
		return errors.New("connections are left")
	}
	return nil
}

func TestCutClosesBothSidesAndAcceptsNewConnections(t *testing.T) {
	p := newPair(t)
	p.proxy.Cut()
	expectClosed(t, p.client)
	expectClosed(t, p.server)
	client, server := p.connect(t)
	send(t, client, "new")
	expect(t, server, "new")
}

func TestRefuseClosesAndRefusesUntilResume(t *testing.T) {
	p := newPair(t)
	p.proxy.Refuse()
	expectClosed(t, p.client)
	expectClosed(t, p.server)
	if conn, err := net.Dial("tcp", proxyAddress(t, p.proxy)); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			conn.Close()
		}
		t.Fatalf("connect: %v, want %v", err, syscall.ECONNREFUSED)
	}
	p.proxy.Resume()
	client, server := p.connect(t)
	send(t, server, "back")
	expect(t, client, "back")
}

func TestBlackholeIsSilentInBothDirectionsUntilResume(t *testing.T) {
	p := newPair(t)
	send(t, p.client, "seen")
	expect(t, p.server, "seen")
	p.proxy.Blackhole()
	send(t, p.client, "lost")
	send(t, p.server, "lost")
	expectSilence(t, p.client)
	expectSilence(t, p.server)
	p.proxy.Resume()
	expectClosed(t, p.client)
	expectClosed(t, p.server)
	client, server := p.connect(t)
	send(t, client, "back")
	expect(t, server, "back")
}

func TestBlackholeHidesThatASideCloses(t *testing.T) {
	for name, close := range map[string]func(net.Conn){
		"end": func(c net.Conn) { c.Close() },
		"reset": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			client, server := p.connect(t)
			p.proxy.Blackhole()
			for _, ends := range [][2]net.Conn{{p.client, p.server}, {server, client}} {
				closing, other := ends[0], ends[1]
				close(closing)
				expectSilence(t, other)
				send(t, other, "into the void")
				expectSilence(t, other)
			}
			p.proxy.Resume()
			expectClosed(t, p.server)
			expectClosed(t, client)
		})
	}
}

func TestBlackholeSwallowsWhatWasOnItsWay(t *testing.T) {
	t.Parallel() // it waits
	p := newPair(t)
	const delay = 3 * time.Second
	p.proxy.Delay(delay)
	send(t, p.client, "on its way")
	p.proxy.Blackhole()
	expectSilenceFor(t, p.server, delay+quiet)
}

// fill writes until every buffer on the way is full, since nobody reads.
func fill(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(quiet))
	if _, err := c.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("write: %v", err)
	}
}

func TestSenderDoesNotNoticeBlackholeByFullBuffers(t *testing.T) {
	for name, delay := range map[string]time.Duration{"full": 0, "delayed": time.Hour} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.proxy.Delay(delay)
			fill(t, p.client)
			fill(t, p.server)
			p.proxy.Blackhole() // must return, with its own writes blocked
			for _, c := range []net.Conn{p.client, p.server} {
				_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
				if _, err := c.Write(make([]byte, 64<<20)); err != nil {
					t.Fatalf("write: %v", err)
				}
			}
		})
	}
}

func TestBlackholeAcceptsAndNeverAnswers(t *testing.T) {
	p := newPair(t)
	p.proxy.Blackhole()
	conn := dialProxy(t, p.proxy)
	send(t, conn, "anybody there?")
	expectSilence(t, conn)
	p.proxy.Resume()
	expectClosed(t, conn)
}

func TestCutEndsConnectionsInABlackHoleAndKeepsIt(t *testing.T) {
	p := newPair(t)
	p.proxy.Blackhole()
	p.proxy.Cut()
	expectClosed(t, p.client)
	expectSilence(t, dialProxy(t, p.proxy))
}

func TestDelayHoldsBackBothDirectionsAndKeepsOrder(t *testing.T) {
	const delay = 50 * time.Millisecond
	p := newPair(t)
	p.proxy.Delay(delay)
	for _, ends := range [][2]net.Conn{{p.client, p.server}, {p.server, p.client}} {
		begin := time.Now()
		send(t, ends[0], "a")
		expect(t, ends[1], "a")
		if took := time.Since(begin); took < delay {
			t.Fatalf("took %v, want at least %v", took, delay)
		}
	}
	p.proxy.Delay(time.Second)
	send(t, p.client, "first ")
	p.proxy.Delay(0)
	send(t, p.client, "second")
	expect(t, p.server, "first second")
}

func TestDelayDoesNotHinderClose(t *testing.T) {
	p := newPair(t)
	p.proxy.Delay(time.Hour)
	fill(t, p.client)
	p.proxy.Close() // returns when all goroutines have ended
	expectClosed(t, p.client)
	expectClosed(t, p.server)
}

func TestProxyStatesFollowEachOtherInAnyOrder(t *testing.T) {
	p := newPair(t)
	p.proxy.Refuse()
	p.proxy.Blackhole()
	expectSilence(t, dialProxy(t, p.proxy))
	p.proxy.Refuse()
	p.proxy.Refuse()
	p.proxy.Resume()
	p.proxy.Resume()
	client, server := p.connect(t)
	send(t, client, "ok")
	expect(t, server, "ok")
	p.proxy.Close()
	p.proxy.Close()
	p.proxy.Resume()
	p.proxy.Blackhole()
	p.proxy.Refuse()
	p.proxy.Cut()
	if conn, err := net.Dial("tcp", proxyAddress(t, p.proxy)); err == nil {
		conn.Close()
		t.Fatal("a closed proxy accepts connections")
	}
}

func TestProxyIsSafeForConcurrentUse(t *testing.T) {
	srv := natstest.Start(t)
	p := natstest.StartProxy(t, srv.URL())
	nc, _ := natstest.Connect(t, p.URL())
	var wg sync.WaitGroup
	for _, do := range []func(){
		p.Cut, p.Refuse, func() { p.Blackhole() }, p.Resume, func() { p.Delay(time.Microsecond) }, func() { p.Connections() },
		func() { _ = nc.Publish("x", make([]byte, 1000)) },
	} {
		wg.Go(func() {
			for range 50 {
				do()
			}
		})
	}
	wg.Wait()
	p.Resume()
	eventually(t, 30*time.Second, func(context.Context) error { return nc.FlushTimeout(time.Second) })
}

func TestProxyTargetMayBeDownAndComeBack(t *testing.T) {
	srv := natstest.Start(t)
	p := natstest.StartProxy(t, srv.URL())
	nc, _ := natstest.Connect(t, p.URL())
	srv.Stop()
	eventually(t, 10*time.Second, func(context.Context) error { return noConnections(p) })
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func(context.Context) error { return nc.FlushTimeout(time.Second) })
}

func TestClientNoticesBlackholeByItsPingsAndRecovers(t *testing.T) {
	srv := natstest.Start(t)
	p := natstest.StartProxy(t, srv.URL())
	lost := make(chan error, 1)
	nc, _ := natstest.Connect(t, p.URL(), nats.PingInterval(50*time.Millisecond), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			select {
			case lost <- err:
			default:
			}
		}))
	p.Blackhole()
	select {
	case err := <-lost:
		if !errors.Is(err, nats.ErrStaleConnection) {
			t.Fatalf("the client lost its connection by %v, want %v", err, nats.ErrStaleConnection)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the client did not notice")
	}
	p.Resume()
	eventually(t, 10*time.Second, func(context.Context) error { return nc.FlushTimeout(time.Second) })
}

func TestClusterClientStaysBehindItsProxy(t *testing.T) {
	c := natstest.StartCluster(t, 2)
	p := natstest.StartProxy(t, c.Servers()[0].URL())
	nc, _ := natstest.Connect(t, p.URL())
	p.Cut()
	eventually(t, 10*time.Second, func(context.Context) error { return nc.FlushTimeout(time.Second) })
	if got := nc.Servers(); len(got) != 1 {
		t.Fatalf("the client knows %v, want the proxy alone", got)
	}
}

func TestProxyTargetThatIsNoAddressIsAnError(t *testing.T) {
	for _, target := range []string{"", "nats://", "localhost", "nats://a:1,nats://b:2", "://"} {
		if p, err := natstest.NewProxy(target); err == nil {
			p.Close()
			t.Errorf("target %q is accepted", target)
		}
	}
}

// TestConnectWaitsForAServerThatIsSlowToAnswer, longer than one try may take.
func TestConnectWaitsForAServerThatIsSlowToAnswer(t *testing.T) {
	p := natstest.StartProxy(t, natstest.Start(t).URL())
	p.Delay(time.Hour)
	time.AfterFunc(300*time.Millisecond, func() { p.Delay(0) })
	nc, _ := natstest.Connect(t, p.URL(), nats.Timeout(50*time.Millisecond))
	if !nc.IsConnected() {
		t.Error("it is not connected")
	}
}
