package natstest

import (
	"bytes"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Direction is one of the two directions of a connection.
type Direction int

const (
	ToServer   Direction = iota // what the client sends
	FromServer                  // what the server sends
)

// String names the direction in a sentence.
func (d Direction) String() string {
	if d == ToServer {
		return "to the server"
	}
	return "from the server"
}

// Message is a message on its way through a [Proxy].
type Message struct {
	// Data may be changed, and the Reply of what the server sends; SetHeader changes a header. The rest is there to be read.
	*nats.Msg
	Direction Direction
	// Request is the subject of the request that this message answers, if the request went the same way: for an
	// acknowledgement of JetStream, the subject that was published to.
	Request string

	header []byte // as it goes over the wire
}

// SetHeader changes the value of a header that the message has. A message that has none by that name stays as it is.
func (m *Message) SetHeader(name, value string) {
	begin := bytes.Index(m.header, []byte("\r\n"+name+":"))
	if begin < 0 {
		return
	}
	begin += len("\r\n" + name + ":")
	end := begin + bytes.Index(m.header[begin:], []byte("\r\n"))
	m.header = slices.Concat(m.header[:begin], []byte(" "+value), m.header[end:])
	m.Header[name] = []string{value}
}

// Fate is what becomes of a message. The zero value lets it pass.
type Fate struct {
	Lost  bool          // it does not arrive
	Twice bool          // it arrives, and the same once more
	Late  time.Duration // it arrives so much later; only what is as late keeps its place behind it
	Cut   bool          // the connection is cut as it would arrive; with Lost, instead of its arrival
}

// To selects the messages that a client sends to a subject. The subject may have wildcards.
func To(subject string) func(*Message) bool {
	return func(m *Message) bool {
		return m.Direction == ToServer && server.SubjectsCollide(m.Subject, subject)
	}
}

// AnswersTo selects what a server answers to requests, or publishes with an acknowledgement, of a subject. The subject may
// have wildcards.
func AnswersTo(subject string) func(*Message) bool {
	return func(m *Message) bool {
		return m.Direction == FromServer && m.Request != "" && server.SubjectsCollide(m.Request, subject)
	}
}

// Nth is for [Proxy.Tamper]: fate becomes of the nth selected message, counted from 1, and all others pass.
func Nth(n int, selected func(*Message) bool, fate Fate) func(*Message) Fate {
	seen := 0
	return func(m *Message) Fate {
		if !selected(m) {
			return Fate{}
		}
		if seen++; seen != n {
			return Fate{}
		}
		return fate
	}
}

// Each is for [Proxy.Tamper]: fate becomes of each selected message.
func Each(selected func(*Message) bool, fate Fate) func(*Message) Fate {
	return func(m *Message) Fate {
		if selected(m) {
			return fate
		}
		return Fate{}
	}
}

// requests remembers the subjects of requests by their reply subjects: the last some thousands of them.
type requests struct{ young, old map[string]string }

const mostRequests = 4096

func (r *requests) sent(reply, subject string) {
	if reply == "" {
		return
	}
	if len(r.young) >= mostRequests {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[string]string{}
	}
	r.young[reply] = subject
}

func (r *requests) of(reply string) string {
	if subject, ok := r.young[reply]; ok {
		return subject
	}
	return r.old[reply]
}
