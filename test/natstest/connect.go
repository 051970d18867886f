package natstest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reconnectWait is short, because a test waits for it.
const reconnectWait = 50 * time.Millisecond

// slowest is how long a machine that does much else may take until a connection works.
const slowest = 30 * time.Second

// Connect connects to url, a comma-separated list of servers, and closes the connection when the test is complete. It
// reconnects for ever, with attempts 50 ms apart, so the servers may be stopped, or refuse its user, for any time. opts
// come after these settings and may change them. If the first connection fails, so does the test; a server that is only
// slow to answer has half a minute for it.
func Connect(t testing.TB, url string, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	all := append([]nats.Option{
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait/5, reconnectWait/5),
	}, opts...)
	if isVirtual() {
		all = append([]nats.Option{Dialer()}, all...)
	}
	nc, err := nats.Connect(url, all...)
	// nats.Timeout would hold for each reconnect, too, and nats.go holds its lock meanwhile: in a black hole all that asks
	// the connection for anything would stand still for so long.
	for began := time.Now(); isTimeout(err) && time.Since(began) < slowest; {
		nc, err = nats.Connect(url, all...)
	}
	if err != nil {
		t.Fatalf("natstest: connect to %s: %v", url, err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("natstest: JetStream client for %s: %v", url, err)
	}
	return nc, js
}

// isTimeout reports whether a server was there and did not answer in time.
func isTimeout(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, os.ErrDeadlineExceeded)
}
