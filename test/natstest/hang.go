package natstest

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ConnectAndHang is [Connect] with a function that has the connection dial a server which does not answer, until the
// test ends. nats.go holds its lock meanwhile, so whoever asks the connection for anything waits.
//
// It is for real time: virtual time stands still while others wait for a lock.
func ConnectAndHang(t testing.TB, url string) (nc *nats.Conn, js jetstream.JetStream, hang func()) {
	t.Helper()
	d := &hangingDialer{dials: make(chan struct{}), over: make(chan struct{})}
	nc, js = Connect(t, url, nats.SetCustomDialer(d))
	t.Cleanup(func() { close(d.over) }) // before the connection is closed, which needs its lock
	return nc, js, func() {
		t.Helper()
		d.hang()
		if err := nc.ForceReconnect(); err != nil {
			t.Fatalf("natstest: reconnect: %v", err)
		}
		<-d.dials
	}
}

type hangingDialer struct {
	mu          sync.Mutex
	hangs       bool
	once        sync.Once
	dials, over chan struct{} // closed when the dial that hangs has begun, and at the end
}

func (d *hangingDialer) hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = true
}

// Dial implements nats.CustomDialer.
func (d *hangingDialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	hangs := d.hangs
	d.mu.Unlock()
	if hangs {
		d.once.Do(func() { close(d.dials) })
		<-d.over
	}
	var dialer net.Dialer
	return dialer.DialContext(context.Background(), network, address)
}

// AwaitLock waits until a goroutine waits for a lock in a function, or in one that it called: "entity.(*bucket).put".
func AwaitLock(t testing.TB, function string) {
	t.Helper()
	Eventually(t, function+" waits for a lock", func() bool {
		stacks := make([]byte, 1<<20)
		for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
			state, calls, _ := bytes.Cut(stack, []byte("\n"))
			if bytes.Contains(state, []byte("Mutex.")) && bytes.Contains(calls, []byte(function+"(")) {
				return true
			}
		}
		return false
	})
}
