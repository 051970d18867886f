package natstest

import (
	"bufio"
	"net"

	"github.com/nats-io/nats.go"
)

// Tamper passes each message that the server sends on a connection to deliver, before the client gets it. If deliver
// returns false, the message is swallowed: the client never hears of it. If deliver changes the message, the client
// gets the changed one. deliver gets the messages one at a time, in the order of the server; while it runs nothing
// else arrives. Tamper goes on after a reconnect. It replaces the connection's dialer, and works only without TLS.
func Tamper(deliver func(*nats.Msg) bool) nats.Option {
	return nats.SetCustomDialer(tamperingDialer{deliver})
}

type tamperingDialer struct{ deliver func(*nats.Msg) bool }

func (d tamperingDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := dialer{}.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &tamperedConn{Conn: conn, in: bufio.NewReader(conn), deliver: d.deliver}, nil
}

// tamperedConn reads whole operations of the protocol and hands on those that the client may see.
type tamperedConn struct {
	net.Conn
	in      *bufio.Reader
	out     []byte // not read yet
	deliver func(*nats.Msg) bool
}

func (c *tamperedConn) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		o, err := readOperation(c.in)
		if err != nil {
			return 0, err
		}
		if err := c.pass(o); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// pass asks deliver about a message, and writes it anew. The headers stay as they were.
func (c *tamperedConn) pass(o *operation) error {
	if o.isMessage() {
		m, err := o.message()
		if err != nil {
			return err
		}
		if !c.deliver(m) {
			return nil
		}
		o.data = m.Data
	}
	c.out = o.bytes()
	return nil
}
