package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// operation is one operation of the NATS protocol, of client or server.
type operation struct {
	fields       []string // of its line
	line         string   // with its end
	message      bool     // PUB, HPUB, MSG or HMSG
	header, data []byte   // of a message
}

// readOperation reads one operation. The sizes of a message are the last fields of its line.
func readOperation(in *bufio.Reader) (o operation, err error) {
	if o.line, err = in.ReadString('\n'); err != nil {
		return o, err
	}
	o.fields = strings.Fields(o.line)
	sizes := 0
	if len(o.fields) > 0 {
		switch strings.ToUpper(o.fields[0]) {
		case "PUB", "MSG":
			sizes = 1
		case "HPUB", "HMSG":
			sizes = 2
		}
	}
	if sizes == 0 {
		return o, nil
	}
	o.message = true
	numbers := o.fields[len(o.fields)-sizes:]
	o.fields = o.fields[:len(o.fields)-sizes]
	size, err := strconv.Atoi(numbers[sizes-1])
	if err != nil {
		return o, fmt.Errorf("reading %q: %w", o.line, err)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(in, body); err != nil {
		return o, err
	}
	headers := 0
	if sizes == 2 {
		if headers, err = strconv.Atoi(numbers[0]); err != nil {
			return o, fmt.Errorf("reading %q: %w", o.line, err)
		}
	}
	o.header, o.data = body[:headers], body[headers:size]
	return o, nil
}

// bytes is the operation as it goes over the wire.
func (o *operation) bytes() []byte {
	if !o.message {
		return []byte(o.line)
	}
	verb := strings.TrimPrefix(o.fields[0], "H")
	sizes := strconv.Itoa(len(o.data))
	if len(o.header) > 0 {
		verb, sizes = "H"+verb, fmt.Sprint(len(o.header), " ", len(o.header)+len(o.data))
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s %s\r\n", verb, strings.Join(o.fields[1:], " "), sizes)
	out.Write(o.header)
	out.Write(o.data)
	out.WriteString("\r\n")
	return out.Bytes()
}

func (o *operation) is(verb string) bool {
	return len(o.fields) > 0 && strings.TrimPrefix(strings.ToUpper(o.fields[0]), "H") == verb
}

// published returns the subject and the reply subject of a PUB.
func (o *operation) published() (subject, reply string) {
	if len(o.fields) > 2 {
		reply = o.fields[2]
	}
	return o.fields[1], reply
}

// Headers of each message that a replica publishes to a bucket: the replica, when it was sent, and who held the lease
// then.
const (
	replicaHeader = "Nagi-Test-Replica"
	holderHeader  = "Nagi-Test-Holder"
	sentHeader    = "Nagi-Test-Sent" // nanoseconds of Unix time
)

// parseSent reads a sentHeader. What a user sends has none.
func parseSent(header string) time.Time {
	nanoseconds, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

func (o *operation) tag(replica, holder string) {
	if len(o.header) == 0 {
		o.header = []byte("NATS/1.0\r\n\r\n")
	}
	end := len(o.header) - len("\r\n")
	o.header = fmt.Appendf(o.header[:end:end], "%s: %s\r\n%s: %s\r\n%s: %d\r\n\r\n",
		replicaHeader, replica, holderHeader, holder, sentHeader, time.Now().UnixNano())
}

// isMarker reads the headers of a PUB.
func (o *operation) isMarker() bool { return bytes.Contains(o.header, []byte("KV-Operation:")) }

// isStored reads an acknowledgement.
func isStored(data []byte) bool {
	var ack struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	return json.Unmarshal(data, &ack) == nil && ack.Error == nil && ack.Seq > 0
}
