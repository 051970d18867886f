package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	farAway    = 250 * time.Millisecond // a round trip that makes all slow
	clockSlack = time.Second            // that a clock may be wrong
	nearlyFull = 0.9                    // of what the account may store
)

// connection looks at the server, JetStream and the account.
func (d *doctor) connection(ctx context.Context) {
	version := d.s.nc.ConnectedServerVersion()
	switch {
	case kvstream.VersionBefore(version, kvstream.OldestServer):
		d.find(isError, "connection", "server "+version, kvstream.TooOld(version).Error(), "upgrade nats-server")
	case kvstream.VersionBefore(version, kvstream.TTLs):
		d.find(isWarning, "connection", "server "+version,
			"it knows no TTLs of messages: markers of deletes stay for ever",
			"upgrade nats-server to "+kvstream.TTLs+" or newer")
	default:
		d.find(isOK, "connection", "server "+version, "it is new enough", "")
	}
	rtt, err := d.s.nc.RTT()
	switch {
	case err != nil:
		d.find(isError, "connection", "round trip", err.Error(), "look at the network to the server")
	case rtt > farAway:
		d.find(isWarning, "connection", "round trip", fmt.Sprintf("it takes %v", rtt.Round(time.Millisecond)),
			"connect to a server that is nearer")
	default:
		d.find(isOK, "connection", "round trip", fmt.Sprintf("it takes %v", rtt.Round(time.Microsecond)), "")
	}
	d.account(ctx)
}

func (d *doctor) account(ctx context.Context) {
	ctx, cancel := d.s.within(ctx)
	defer cancel()
	var info *jetstream.AccountInfo
	err := denials.Of(d.s.nc).Call(ctx, d.s.api("INFO"), func(ctx context.Context) (err error) {
		info, err = d.s.js.AccountInfo(ctx)
		return err
	})
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return // who reads needs no such right
	case err != nil:
		d.find(isError, "connection", "JetStream", err.Error(),
			"enable JetStream for the server and this account, or name its domain with --js-domain")
		return
	}
	d.find(isOK, "connection", "JetStream", "it is there", "")
	for _, of := range []struct {
		name string
		used uint64
		most int64
	}{{"disk", info.Store, info.Limits.MaxStore}, {"memory", info.Memory, info.Limits.MaxMemory}} {
		if of.most > 0 && float64(of.used) > nearlyFull*float64(of.most) {
			d.find(isWarning, "connection", "JetStream", fmt.Sprintf("the account uses %d of %d bytes of %s", of.used,
				of.most, of.name), "give it more, before writes fail")
		}
	}
}

// clock compares the clock of the server that has a stream with this one.
func (d *doctor) clock(before, after, server time.Time) {
	if server.IsZero() {
		return // an old server
	}
	switch skew := skewOf(before, after, server); {
	case skew > 0:
		d.find(isWarning, "clock", "", fmt.Sprintf("this machine's clock is %v behind the server's",
			skew.Round(time.Millisecond)), "let both keep the time (NTP): ages and waits are told wrong here")
	case skew < 0:
		d.find(isWarning, "clock", "", fmt.Sprintf("this machine's clock is %v ahead of the server's",
			(-skew).Round(time.Millisecond)), "let both keep the time (NTP): ages and waits are told wrong here")
	default:
		d.find(isOK, "clock", "", "it is that of the server", "")
	}
}

// skewOf is how much the server's clock is ahead, beyond what the time of the answer and the slack explain; 0 if it is
// not.
func skewOf(before, after, server time.Time) time.Duration {
	took := after.Sub(before)
	skew := server.Sub(before.Add(took / 2))
	if skew.Abs() <= took/2+clockSlack {
		return 0
	}
	return skew
}

// api is a subject of the API of JetStream.
func (s *session) api(what string) string {
	opts := s.js.Options()
	switch {
	case opts.APIPrefix != "":
		return strings.TrimSuffix(opts.APIPrefix, ".") + "." + what
	case opts.Domain != "":
		return "$JS." + opts.Domain + ".API." + what
	}
	return "$JS.API." + what
}
