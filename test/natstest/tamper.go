package natstest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

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
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &tamperedConn{Conn: conn, in: bufio.NewReader(conn), deliver: d.deliver}, nil
}

// tamperedConn reads whole operations of the protocol and hands on those that the client may see.
type tamperedConn struct {
	net.Conn
	in      *bufio.Reader
	out     bytes.Buffer // not read yet
	deliver func(*nats.Msg) bool
}

func (c *tamperedConn) Read(p []byte) (int, error) {
	for c.out.Len() == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	return c.out.Read(p)
}

// next reads one operation. A message is MSG <subject> <sid> [reply] <size>, or HMSG with the size of the headers
// before the whole size. Its bytes follow on the next line.
func (c *tamperedConn) next() error {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return err
	}
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "MSG" && fields[0] != "HMSG" {
		c.out.WriteString(line)
		return nil
	}
	sizes := 1
	if fields[0] == "HMSG" {
		sizes = 2
	}
	args, numbers := fields[1:len(fields)-sizes], fields[len(fields)-sizes:]
	size, err := strconv.Atoi(numbers[sizes-1])
	if err != nil {
		return fmt.Errorf("natstest: reading %q: %w", line, err)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(c.in, body); err != nil {
		return err
	}
	headers := 0
	if sizes == 2 {
		if headers, err = strconv.Atoi(numbers[0]); err != nil {
			return fmt.Errorf("natstest: reading %q: %w", line, err)
		}
	}
	return c.pass(args, body[:headers], body[headers:size])
}

// pass asks deliver about a message, and writes it anew. The headers stay as they were.
func (c *tamperedConn) pass(args []string, headers, data []byte) error {
	m := &nats.Msg{Subject: args[0], Data: data}
	if len(args) > 2 {
		m.Reply = args[2]
	}
	if len(headers) > 0 {
		var err error
		if m.Header, err = nats.DecodeHeadersMsg(headers); err != nil {
			return fmt.Errorf("natstest: reading the headers of a message on %s: %w", m.Subject, err)
		}
	}
	if !c.deliver(m) {
		return nil
	}
	operation, size := "MSG", strconv.Itoa(len(m.Data))
	if len(headers) > 0 {
		operation, size = "HMSG", fmt.Sprintf("%d %d", len(headers), len(headers)+len(m.Data))
	}
	fmt.Fprintf(&c.out, "%s %s %s\r\n%s%s\r\n", operation, strings.Join(args, " "), size, headers, m.Data)
	return nil
}
