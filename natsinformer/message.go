package natsinformer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
)

// Headers of the messages in a key-value stream.
const (
	operationHeader = "KV-Operation"
	markerHeader    = "Nats-Marker-Reason"
	ttlHeader       = "Nats-TTL"
)

// delivery is what the reply subject of a message tells about it.
type delivery struct {
	consumer  string
	streamSeq uint64
	consSeq   uint64
	created   int64 // nanoseconds
	pending   uint64
}

// parseDelivery reads the acknowledgement subject. It has two forms, with and without domain and account:
//
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>[.<token>]
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//
// nats.Msg.Metadata does the same with some allocations; this runs once per message of a list.
func parseDelivery(reply string) (delivery, error) {
	const old, domain = 9, 11
	var tokens [13]string
	n, rest := 0, reply
	for n < len(tokens)-1 {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			break
		}
		tokens[n], rest = rest[:i], rest[i+1:]
		n++
	}
	tokens[n] = rest
	n++
	first := 3
	switch {
	case tokens[0] != "$JS" || tokens[1] != "ACK" || n < old || n == old+1:
		return delivery{}, fmt.Errorf("%q is not the reply subject of a JetStream message", reply)
	case n >= domain:
		first = 5
	}
	d := delivery{consumer: tokens[first]}
	var err error
	number := func(token string) uint64 {
		v, e := strconv.ParseUint(token, 10, 64)
		if e != nil {
			err = e
		}
		return v
	}
	d.streamSeq, d.consSeq = number(tokens[first+2]), number(tokens[first+3])
	d.created, d.pending = int64(number(tokens[first+4])), number(tokens[first+5])
	if err != nil {
		return delivery{}, fmt.Errorf("%q is not the reply subject of a JetStream message: %w", reply, err)
	}
	return d, nil
}

// markerOf returns how a message deletes its key, or "" if it is a value. A marker of another key that the server sent
// to this one as a reply, because a client asked for that, deletes nothing.
func markerOf(header nats.Header) DeleteReason {
	if len(header) == 0 || kvstream.IsReply(header, nil) {
		return ""
	}
	switch header.Get(operationHeader) {
	case "DEL":
		return DeleteMarker
	case "PURGE":
		return PurgeMarker
	}
	switch header.Get(markerHeader) {
	case "":
		return ""
	case "MaxAge":
		return ExpiryMarker
	case "Remove":
		return DeleteMarker
	default:
		return PurgeMarker
	}
}

// expiryOf returns when the server will drop a message, in nanoseconds; zero if it carries no time to live, one that
// the server does not accept, or one of more than ninety years.
func expiryOf(header nats.Header, created int64) int64 {
	const most = math.MaxInt64 / int64(time.Second) / 3
	seconds := secondsToLive(header.Get(ttlHeader))
	if seconds <= 0 || seconds > most {
		return 0
	}
	return created + seconds*int64(time.Second)
}

// secondsToLive reads a time to live as the server does (parseMessageTTL): a duration, cut to whole seconds, or a
// number of seconds. It is zero for "never", and for what the server does not accept.
func secondsToLive(ttl string) int64 {
	if ttl == "" {
		return 0
	}
	if d, err := time.ParseDuration(ttl); err == nil {
		return int64(d / time.Second)
	}
	seconds, err := strconv.ParseUint(ttl, 10, 63)
	if err != nil {
		return 0
	}
	return int64(seconds)
}

func formatVersion(revision uint64) string { return strconv.FormatUint(revision, 10) }

// isVersion reports whether version is formatVersion of the revision. It allocates nothing.
func isVersion(version string, revision uint64) bool {
	var digits [20]byte
	return string(strconv.AppendUint(digits[:0], revision, 10)) == version
}
