package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The reasons of events about what a controller needs and does not have.
const (
	reasonAway, reasonBack          = "APIAway", "APIBack"
	reasonDegraded, reasonRecovered = "SourceDegraded", "SourceRecovered"
)

// The shortest time between two events that say of one thing that it is away. A recorder throttles by object, and what
// flaps must not use up the controller's share: the brake needs it.
const (
	leastPause = time.Minute
	mostPause  = 15 * time.Minute
)

// outages tells in events about the controller of what it needs and what goes away, and comes back: an API, a source in
// NATS, the records and the lease. Of what comes and goes it tells with pauses; what stays away is told once the pause
// is over. That something is back is told only if it was told to be away. The methods may be called concurrently.
type outages struct {
	// Self records an event about the controller.
	Self func(eventType, reason, message string)
	// Sources are those of the controller, which its board knows by their names.
	Sources      func() source.Group
	StatusBucket string

	mu     sync.Mutex
	byName map[string]*outage
}

// outage is what is known of one thing.
type outage struct {
	away   error // why it is away; nil if it is not
	since  time.Time
	told   bool // that it is away now
	pauses notify.Pauses
	unsaid int // how often it came and went since the last event
	timer  *time.Timer
}

// recordsOf is the board's name of the records in a status bucket.
func recordsOf(statusBucket string) string { return "records (bucket " + statusBucket + ")" }

// leaseOf is the board's name of the lease.
func leaseOf(statusBucket string) string { return "lease (bucket " + statusBucket + ")" }

// settingsOf is the board's name of the settings of the buckets of a source.
func settingsOf(s source.Source) string { return "settings of " + s.String() }

// callsOf is the board's name of the calls of a source, which may go wrong while its news comes.
func callsOf(s source.Source) string { return "calls of " + s.String() }

// isOver returns whether what the board knows by a name is reached over a connection of NATS.
func (e *Engine) isOver(nc *nats.Conn) func(name string) bool {
	return func(name string) bool {
		for _, s := range e.sources.Group() {
			if s.String() != name {
				continue
			}
			inNATS, ok := s.(interface{ JetStream() jetstream.JetStream })
			return ok && inNATS.JetStream() != nil && inNATS.JetStream().Conn() == nc
		}
		// A manager's lease is reached over its connection, which is that of its clients.
		return name == recordsOf(e.statusBucket) || strings.HasPrefix(name, "lease (bucket ")
	}
}

// Before returns a callback of the board that tells in events, and then calls next, if that is not nil.
func (o *outages) Before(next func(ctx context.Context, name string, err error)) func(context.Context, string, error) {
	return func(ctx context.Context, name string, err error) {
		o.Changed(name, err)
		if next != nil {
			next(ctx, name, err)
		}
	}
}

// Changed takes a change of the board. It tells nothing of names that it does not know.
func (o *outages) Changed(name string, err error) {
	away, back := o.reasons(name)
	if away == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byName == nil {
		o.byName = map[string]*outage{}
	}
	thing := o.byName[name]
	if thing == nil {
		thing = &outage{pauses: notify.Pauses{Least: leastPause, Most: mostPause}}
		o.byName[name] = thing
	}
	was := thing.away
	thing.away = err
	switch {
	case err == nil && was != nil && thing.told:
		thing.told = false
		o.Self(EventNormal, back, fmt.Sprintf("%s works again after %v", name, since(thing.since)))
	case err == nil && was != nil:
		thing.unsaid++
	case err != nil && was == nil:
		thing.since = time.Now()
		o.tellAway(name, away, thing)
	}
}

// Left takes what a term has left, which another replica reports from now on: no event says that it works again.
func (o *outages) Left(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if thing := o.byName[name]; thing != nil {
		thing.away, thing.told = nil, false
	}
}

// tellAway tells that something is away, now or, if it is away still, when the pause is over.
func (o *outages) tellAway(name, reason string, thing *outage) {
	if thing.away == nil || thing.told {
		return
	}
	if rest := thing.pauses.Rest(); rest > 0 {
		if thing.timer != nil {
			thing.timer.Stop()
		}
		thing.timer = time.AfterFunc(rest, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.tellAway(name, reason, thing)
		})
		return
	}
	thing.pauses.Told()
	message := name + ": " + printable.Message(thing.away.Error())
	if thing.unsaid > 0 {
		message += fmt.Sprintf(" (it came and went %d times since the last event)", thing.unsaid)
	}
	thing.told, thing.unsaid = true, 0
	o.Self(EventWarning, reason, message)
}

func since(t time.Time) time.Duration {
	d := time.Since(t)
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// reasons are those of the events about a name; "" if there are none.
func (o *outages) reasons(name string) (away, back string) {
	for _, s := range o.Sources() {
		if name == callsOf(s) {
			return reasonDegraded, reasonRecovered
		}
		if s.String() != name {
			continue
		}
		switch s.(type) {
		case *apisource.Source, *kubesource.Source:
			return reasonAway, reasonBack
		}
		return reasonDegraded, reasonRecovered
	}
	if name == health.Connection || name == recordsOf(o.StatusBucket) || name == leaseOf(o.StatusBucket) {
		return reasonDegraded, reasonRecovered
	}
	return "", ""
}
