package natstest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// operation is one operation of the NATS protocol, as a client or a server sends it.
type operation struct {
	line         string   // with its end
	fields       []string // of a message: the verb without the H of headers, subject and others; without the sizes
	header, data []byte   // of a message
}

// readOperation reads one operation. A message is PUB or MSG, with headers HPUB or HMSG. Its line ends in the size of the
// headers, if there are any, and the whole size. Its bytes follow on the next line.
func readOperation(in *bufio.Reader) (*operation, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	o := &operation{line: line}
	verb, _, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	sizes := 0
	switch strings.ToUpper(verb) {
	case "PUB", "MSG":
		sizes = 1
	case "HPUB", "HMSG":
		sizes = 2
	default:
		return o, nil
	}
	fields := strings.Fields(line)
	numbers := fields[len(fields)-sizes:]
	o.fields = fields[:len(fields)-sizes]
	o.fields[0] = strings.TrimPrefix(strings.ToUpper(verb), "H")
	size, err := strconv.Atoi(numbers[sizes-1])
	if err != nil {
		return nil, fmt.Errorf("natstest: reading %q: %w", line, err)
	}
	headers := 0
	if sizes == 2 {
		if headers, err = strconv.Atoi(numbers[0]); err != nil {
			return nil, fmt.Errorf("natstest: reading %q: %w", line, err)
		}
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, err
	}
	o.header, o.data = body[:headers:headers], body[headers:size:size]
	return o, nil
}

func (o *operation) isMessage() bool { return o.fields != nil }

// isPong reports whether it ends the handshake, if the server sends it.
func (o *operation) isPong() bool { return strings.HasPrefix(o.line, "PONG") }

// bytes is the operation as it goes over the wire.
func (o *operation) bytes() []byte {
	if !o.isMessage() {
		return []byte(o.line)
	}
	var out bytes.Buffer
	if len(o.header) > 0 {
		out.WriteString("H")
	}
	out.WriteString(strings.Join(o.fields, " "))
	if len(o.header) > 0 {
		fmt.Fprintf(&out, " %d", len(o.header))
	}
	fmt.Fprintf(&out, " %d\r\n%s%s\r\n", len(o.header)+len(o.data), o.header, o.data)
	return out.Bytes()
}

// replyField is where a message has its reply subject, if it has one: a MSG has its subscription before.
func (o *operation) replyField() int {
	if o.fields[0] == "MSG" {
		return 3
	}
	return 2
}

// message returns what a client would get or send.
func (o *operation) message() (*nats.Msg, error) {
	m := &nats.Msg{Subject: o.fields[1], Data: o.data}
	if i := o.replyField(); len(o.fields) > i {
		m.Reply = o.fields[i]
	}
	if len(o.header) == 0 {
		return m, nil
	}
	header, err := nats.DecodeHeadersMsg(o.header)
	if err != nil {
		return nil, fmt.Errorf("natstest: reading the headers of a message on %s: %w", m.Subject, err)
	}
	m.Header = header
	return m, nil
}
