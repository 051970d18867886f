package worlds

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// serverClock is the clock of the server as replicas see it. Time is one for all in a world, so what the server says of
// times is changed on the wires: each time of after a jump is off by the jump, also when it is read again much later, as
// where the clock of a host is set.
type serverClock struct {
	mu    sync.Mutex
	jumps []jump // in the order of their times
}

// jump is how far the clock is off since a time.
type jump struct {
	since time.Time
	off   time.Duration
}

// jump is how far a jump goes, in all.
func (e Event) jump() time.Duration {
	r := rand.New(rand.NewPCG(e.Dice, 0))
	off := pick(r, time.Second, 20*time.Second, 5*time.Minute, time.Hour, 30*time.Hour)
	return off * time.Duration(pick(r, 1, -1))
}

// jump adds to what the clock is off.
func (c *serverClock) jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var off time.Duration
	if n := len(c.jumps); n > 0 {
		off = c.jumps[n-1].off
	}
	c.jumps = append(c.jumps, jump{time.Now(), off + by})
}

// at is what the clock showed at a time.
func (c *serverClock) at(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.jumps) - 1; i >= 0; i-- {
		if !t.Before(c.jumps[i].since) {
			return t.Add(c.jumps[i].off)
		}
	}
	return t
}

// isOff has the clock be off always.
func (c *serverClock) isOff(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jumps = []jump{{off: by}}
}

func (c *serverClock) isRight() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jumps) == 0
}

// inAnswers are the times in what JetStream's API says of streams, consumers and messages.
var inAnswers = regexp.MustCompile(`"(?:created|ts|time|first_ts|last_ts|last_active)":"[^"]*"`)

const timeHeader = "Nats-Time-Stamp"

// shows changes the times in a message of the server.
func (c *serverClock) shows(m *natstest.Message) {
	if m.Direction != natstest.FromServer || c.isRight() {
		return
	}
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		m.Reply = c.inDelivery(m.Reply)
	}
	if was := m.Header.Get(timeHeader); was != "" {
		if t, err := time.Parse(time.RFC3339Nano, was); err == nil {
			m.SetHeader(timeHeader, c.at(t).UTC().Format(time.RFC3339Nano))
		}
		return // what follows is a document
	}
	if strings.HasPrefix(m.Request, "$JS.API.") {
		m.Data = inAnswers.ReplaceAllFunc(m.Data, c.inAnswer)
	}
}

func (c *serverClock) inAnswer(member []byte) []byte {
	name, value, _ := strings.Cut(string(member), ":")
	var t time.Time
	if json.Unmarshal([]byte(value), &t) != nil || t.IsZero() {
		return member
	}
	return []byte(name + `:"` + c.at(t).UTC().Format(time.RFC3339Nano) + `"`)
}

// inDelivery changes the subject to which a message would be acknowledged: its time stands before what is pending, and
// where there are a domain and an account, a token may follow.
func (c *serverClock) inDelivery(reply string) string {
	tokens := strings.Split(reply, ".")
	i := 7
	if len(tokens) >= 11 {
		i = 9
	}
	if i >= len(tokens) {
		return reply
	}
	if nanoseconds, err := strconv.ParseInt(tokens[i], 10, 64); err == nil {
		tokens[i] = strconv.FormatInt(c.at(time.Unix(0, nanoseconds)).UnixNano(), 10)
	}
	return strings.Join(tokens, ".")
}
