package natstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"

	"github.com/nagi-runtime/nagi/test/internal/ports"
)

// Test runs f in virtual time, as [synctest.Test] does, with servers and proxies that work there. In f [Start],
// [Connect], [StartProxy] and the others are called as ever; connections that f makes by itself need the option [Dialer].
// Time stands still while anything works, and jumps to the next timer when nothing does, so an hour of waiting costs
// nothing and an assertion about time can be exact. It begins at midnight of 2000-01-01, UTC.
//
// All that f starts has to end with it: [Run] sees to that for a controller, and a client is to be closed. What has not
// ended a minute of virtual time after f fails the test, with its stacks. t.Run and t.Parallel may not be called in f,
// but around Test.
//
// The calls of Test in one process take turns, parallel tests or not. While one runs no connection of nats.go may be in
// use outside of it, and none that is made outside may be used inside: nats.go keeps timers for all connections of a
// process together, and one of virtual time ends the process when it is used elsewhere.
//
// Meanwhile the process has one processor. So what polls for a moment, as caches do for client-go, is not overtaken by
// the clock when the machine is busy; and the race detector, which breaks when two goroutines read channels of due timers
// of one bubble at once (https://go.dev/issue/78156), does not.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	turn.Lock()
	defer turn.Unlock()
	stores.Add(1) // none of the test is the first
	defer stores.Add(-1)
	forgetTimers()
	defer forgetTimers()
	network.open()
	defer network.close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer tellOfStandstill(t.Name())()
	bubble := ""
	defer func() { t.Helper(); tellOfLeftovers(t, recover(), bubble) }()
	synctest.Test(t, func(t *testing.T) {
		bubble = thisBubble()
		t.Cleanup(func() { time.Sleep(windingDown) }) // the last one: what ends takes timers for it
		keepStoresTime(t)
		f(t)
	})
}

// windingDown is how much virtual time what a test has stopped gets to end.
const windingDown = time.Minute

// tellOfLeftovers fails the test for the panic by which synctest says that goroutines of the bubble wait for ever. They
// stay, and other tests go on.
func tellOfLeftovers(t *testing.T, panicked any, bubble string) {
	t.Helper()
	if panicked == nil {
		return
	}
	if err, ok := panicked.(error); !ok || !strings.HasPrefix(err.Error(), "deadlock:") {
		panic(panicked)
	}
	t.Fatalf("natstest: %v. A test has to stop what it starts and to wait for it, see Run, and to close each client. "+
		"What is left:\n\n%s", panicked, stacksOf(allStacks(), bubble))
}

// thisBubble returns what the headers of stacks call the bubble of the caller.
func thisBubble() string {
	stack := make([]byte, 256)
	header, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), "\n")
	_, bubble, _ := strings.Cut(header, ", ")
	return strings.TrimSuffix(bubble, ":") // with its bracket: bubble 9 is not bubble 98
}

// The server's stores of messages take storesTime for the present, by which those on disk drop what is too old. The
// first of all stores starts a goroutine that keeps it: one of the process, which knows no time but the real one, and
// which must not begin in a bubble, as it waits for a channel of the process. No option is there to prevent that.
var (
	//go:linkname storesTime github.com/nats-io/nats-server/v2/server/ats.utime
	storesTime atomic.Int64
	//go:linkname stores github.com/nats-io/nats-server/v2/server/ats.refs
	stores atomic.Int64
)

// storesPhase is when storesTime is kept in each interval. A store that had a message written at the same nanosecond of
// an interval, or a few later, asks again in steps of so few nanoseconds until the interval is over, ten seconds after
// the write. So it is a time at which no test writes by design.
const storesPhase = 61_803_399 * time.Nanosecond

// keepStoresTime does until the test ends, in virtual time, what that goroutine does.
func keepStoresTime(t *testing.T) {
	storesTime.Store(time.Now().UnixNano())
	ended := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for next := time.NewTimer(storesPhase); ; next.Reset(ats.TickInterval) {
			select {
			case <-ended:
				next.Stop()
				return
			case now := <-next.C:
				storesTime.Store(now.UnixNano())
			}
		}
	})
	t.Cleanup(func() {
		close(ended)
		keeping.Wait()
	})
}

// patience is after how much real time Test tells what keeps virtual time from moving.
const patience = time.Minute

// tellOfStandstill writes to standard error, while the test takes longer than it should, which goroutines wait for
// something that is outside of their bubble: a socket, a process, or a lock whose holder waits for virtual time. It ends
// no test: go test's -timeout does. The caller calls stop at the end.
func tellOfStandstill(test string) (stop func()) {
	ended := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		ticker := time.NewTicker(patience)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "natstest: %s goes on, and it is about %s there%s\n", test,
					time.Unix(0, storesTime.Load()).UTC().Format(time.DateTime), waitingOutside(allStacks()))
			}
		}
	})
	return func() {
		close(ended)
		telling.Wait()
	}
}

func allStacks() string {
	stacks := make([]byte, 16<<20)
	return string(stacks[:runtime.Stack(stacks, true)])
}

// waitingOutside tells of the goroutines of a bubble that wait, and not durably; "" if there are none: then it works.
func waitingOutside(stacks string) string {
	waiting := stacksOf(stacks, "synctest bubble", "(durable)", "[running", "[runnable")
	if waiting == "" {
		return ""
	}
	return "; what it waits for outside of its bubble:\n\n" + waiting
}

// stacksOf selects the stacks with a text in their headers and none of the others.
func stacksOf(stacks, with string, without ...string) string {
	var selected []string
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		header, _, _ := strings.Cut(stack, "\n")
		has := func(text string) bool { return text != "" && strings.Contains(header, text) }
		if has(with) && !slices.ContainsFunc(without, has) {
			selected = append(selected, stack)
		}
	}
	return strings.Join(selected, "\n\n")
}

// turn is held while time is virtual.
var turn sync.Mutex

// natsTimers is where nats.go keeps timers for all connections of the process.
//
//go:linkname natsTimers github.com/nats-io/nats%2ego.globalTimerPool
var natsTimers sync.Pool

// forgetTimers empties it. No connection is in use.
func forgetTimers() { natsTimers = sync.Pool{} }

// isVirtual reports whether the caller is in virtual time. A bubble's clock begins in the year 2000, and servers do not
// run in one for twenty years.
func isVirtual() bool { return time.Now().Year() < 2020 }

// network has all servers and proxies of virtual time, by address: they do not listen.
var network virtualNetwork

type virtualNetwork struct {
	mu       sync.Mutex
	last     int
	accepted map[string]func() (net.Conn, error)
}

func (n *virtualNetwork) open() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last, n.accepted = 0, map[string]func() (net.Conn, error){}
}

func (n *virtualNetwork) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.accepted = nil
}

// port returns a port that no other server or proxy of this test has. The system lets nobody but its administrator listen
// there, so that a connection without the option [Dialer] is refused at once.
func (n *virtualNetwork) port() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.accepted == nil {
		panic("natstest: a server or a proxy in a bubble of synctest.Test: call natstest.Test in its place")
	}
	n.last++
	return n.last
}

func (n *virtualNetwork) listen(port int, accept func() (net.Conn, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.accepted[ports.Address(port)] = accept
}

func (n *virtualNetwork) unlisten(port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.accepted, ports.Address(port))
}

var errRefused = errors.New("connection refused")

func (n *virtualNetwork) dial(address string) (net.Conn, error) {
	n.mu.Lock()
	accept := n.accepted[address]
	n.mu.Unlock()
	if accept == nil {
		return nil, fmt.Errorf("dial %s in virtual time: %w", address, errRefused)
	}
	return accept()
}

// Dialer is the option for connections in virtual time that [Connect] does not make: those of nats.Connect, and of code
// that connects by itself. Outside of [Test] it changes nothing.
func Dialer() nats.Option { return nats.SetCustomDialer(dialer{}) }

// Dial connects to a server or a proxy of this package in virtual time, and to any address outside of it: for a dialer of
// the test's own.
func Dial(network, address string) (net.Conn, error) { return dialer{}.Dial(network, address) }

type dialer struct{}

func (dialer) Dial(transport, address string) (net.Conn, error) {
	if isVirtual() {
		return network.dial(address)
	}
	return net.Dial(transport, address)
}
