package worlds

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// wire is the only way of one process to the server. The world sees each message on it.
type wire struct {
	world *world
	name  string
	proxy *natstest.Proxy
	clock serverClock // the server's, as a replica sees it whose own is off

	mu    sync.Mutex
	fates []*fate
	views viewing
}

// fate is what becomes of the next messages of a kind.
type fate struct {
	of   func(*natstest.Message) bool
	is   natstest.Fate
	left int    // how many more
	ends func() // is called when there are no more
}

func newWire(w *world, name string) (*wire, error) {
	proxy, err := natstest.NewProxy(w.server.URL())
	if err != nil {
		return nil, err
	}
	x := &wire{world: w, name: name, proxy: proxy}
	if off := w.plan.clockOf(name); off != 0 {
		w.note(name, "its clock is off by %v", off)
		x.clock.isOff(-off)
	}
	proxy.Tamper(x.pass)
	return x, nil
}

// pass shows the world a message, and says what becomes of it.
func (x *wire) pass(m *natstest.Message) natstest.Fate {
	if m.Direction == natstest.ToServer {
		if bucket, key, ok := bucketAndKey(m.Subject); ok {
			x.world.sends(x.name, messageOf(bucket, key, m))
		}
	}
	x.steps(m)
	x.world.clock.shows(m)
	x.clock.shows(m)
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, f := range x.fates {
		if !f.of(m) {
			continue
		}
		if f.left--; f.left == 0 {
			x.fates = append(x.fates[:i:i], x.fates[i+1:]...)
			f.ends()
		}
		x.world.note(x.name, "%s: %+v", describe(m), f.is)
		return f.is
	}
	return x.lateView(m)
}

func describe(m *natstest.Message) string {
	if m.Request != "" {
		return "the answer to " + m.Request
	}
	return "a message " + m.Direction.String() + ": " + m.Subject
}

// meet lets the next n messages of a kind meet their fate.
func (x *wire) meet(n int, of func(*natstest.Message) bool, is natstest.Fate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fates = append(x.fates, &fate{of, is, n, x.world.hinders(x.name)})
}

// heal ends all faults of the wire.
func (x *wire) heal() {
	x.mu.Lock()
	for _, f := range x.fates {
		f.ends()
	}
	x.fates, x.views = nil, viewing{}
	x.mu.Unlock()
	x.proxy.Delay(0)
	x.proxy.Resume()
}

// die is the end of the process: nothing of it gets through any more.
func (x *wire) die() { x.proxy.Refuse() }

// message is one write to a bucket.
type message struct {
	bucket, key string
	marker      bool
	value       []byte
	id          string // of the write; "" if it has none
}

func messageOf(bucket, key string, m *natstest.Message) message {
	return message{bucket, key, m.Header.Get(markerHeader) != "", m.Data, m.Header.Get(writeIDHeader)}
}

func bucketAndKey(subject string) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(subject, "$KV.")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ".")
}

// isWrite, isAck, isAsk and isNews select messages.
func isWrite(m *natstest.Message) bool {
	return m.Direction == natstest.ToServer && strings.HasPrefix(m.Subject, "$KV.")
}

func isAck(m *natstest.Message) bool {
	return m.Direction == natstest.FromServer && strings.HasPrefix(m.Request, "$KV.")
}

func isAsk(m *natstest.Message) bool {
	return m.Direction == natstest.ToServer && strings.HasPrefix(m.Subject, "$JS.API")
}

func isNews(m *natstest.Message) bool {
	return m.Direction == natstest.FromServer && strings.HasPrefix(m.Subject, "$KV.") && m.Request == ""
}

func isAny(m *natstest.Message) bool { return isWrite(m) || isAck(m) || isNews(m) }

const leaseKey = "_nagi.lease"

// holderOf reads a lease; "" is a free one, or none.
func holderOf(lease []byte) string {
	var l struct {
		Holder string `json:"holderIdentity"`
	}
	_ = json.Unmarshal(lease, &l)
	return l.Holder
}

// settle is how long a marker of a delete may come after its owner's document: what began before goes on.
const settle = 6 * time.Second
