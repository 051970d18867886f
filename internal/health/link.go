package health

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
)

// Connection is the name of the problem that the connection to NATS is down.
const Connection = "connection to NATS"

// linkGrace is for how long a connection may be down before that is a problem, if nothing has failed meanwhile. It is
// less than the informers wait, so that the log of the controller has it.
const linkGrace = 900 * time.Millisecond

// closedForGood says of a connection that it does not come back by itself.
const closedForGood = "the connection to NATS is closed for good: restart the process"

// link is the connection over which things are reached. The nil link explains nothing. What is not said otherwise is
// guarded by the board's mutex.
type link struct {
	nc     *nats.Conn
	known  *connection.Connection
	covers func(name string) bool
	more   chan struct{} // something was covered, which becomes due by itself; room for one

	watched bool // Watch runs
	shown   bool // the callback was told that it is down
	closed  bool // and that it was closed in that outage
}

// Over says that what covers names is reached over a connection. While Watch runs, what of it fails because the
// connection is down is not told by its name: there is one problem, with the name Connection. What does not work
// connection.Settle after the connection is back is told by its name. Over must be called before all other methods.
func (b *Board) Over(nc *nats.Conn, covers func(name string) bool) {
	b.over = &link{nc: nc, known: connection.Of(nc), covers: covers, more: make(chan struct{}, 1)}
}

// Watch follows the connection of Over until ctx ends.
func (b *Board) Watch(ctx context.Context) {
	l := b.over
	if l == nil {
		return
	}
	b.mu.Lock()
	l.watched = true
	b.mu.Unlock()
	changes := l.nc.StatusChanged(nats.RECONNECTING, nats.CONNECTED, nats.CLOSED)
	defer l.nc.RemoveStatusListener(changes)
	lasting := context.WithoutCancel(ctx)
	for {
		l.known.Look() // no lock is held: it may wait for a dial
		b.tellLink(lasting)
		due := time.NewTimer(b.linkDue())
		select {
		case <-changes:
		case <-l.more:
		case <-due.C:
			b.uncover(lasting)
		case <-ctx.Done():
			due.Stop()
			return
		}
		due.Stop()
	}
}

// explains reports whether the connection may be why something fails.
func (b *Board) explains(name string) bool {
	if b.over == nil || !b.over.covers(name) || !b.over.known.State().Disturbed() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over.watched
}

// covered names what the connection explains. The mutex must be held.
func (b *Board) covered() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		if b.byName[name].covered {
			names = append(names, name)
		}
	}
	return names
}

// linkDue is how long it takes until something becomes due by itself: that the connection is down is a problem, or what
// it covered is told by its name.
func (b *Board) linkDue() time.Duration {
	state := b.over.known.State()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case state.Down && !b.over.shown:
		return time.Until(state.Since.Add(linkGrace))
	case state.Closed && len(b.covered()) > 0:
		return 0
	case !state.Down && len(b.covered()) > 0:
		return time.Until(state.Back.Add(connection.Settle))
	}
	return time.Hour
}

// linkProblem is that the connection is down, or was down and things still wait for it, or was closed in an outage that
// was told; else nil. The mutex must be held.
func (b *Board) linkProblem() *Problem {
	if b.over == nil || !b.over.watched {
		return nil
	}
	state, waiting := b.over.known.State(), strings.Join(b.covered(), ", ")
	since := state.Since.UTC().Format(time.RFC3339)
	var err error
	switch {
	case state.Closed && b.over.shown:
		err = fmt.Errorf("%s; it was down since %s", closedForGood, since)
	case state.Closed:
		return nil
	case state.Down && time.Since(state.Since) < linkGrace && waiting == "":
		return nil
	case state.Down:
		err = fmt.Errorf("the connection to NATS is down since %s and is made anew as soon as a server takes it; "+
			"documents, records and leases are neither read nor written until then", since)
		if state.Refused != nil {
			err = fmt.Errorf("the connection to NATS is down since %s, and the server refuses another one: %w: "+
				"check the user and its credentials", since, state.Refused)
		}
	case waiting != "":
		err = fmt.Errorf("the connection to NATS was down since %s and is back since %s; not heard of since then: %s",
			since, state.Back.UTC().Format(time.RFC3339), waiting)
	default:
		return nil
	}
	return &Problem{Since: state.Since, Err: notify.Because(Connection, err)}
}

// tellLink tells that the connection is down, or no more. In the log that is told once of each connection.
func (b *Board) tellLink(ctx context.Context) {
	if b.over == nil {
		return
	}
	b.mu.Lock()
	problem := b.linkProblem()
	closed := problem != nil && b.over.known.State().Closed
	changed := b.over.shown != (problem != nil) || closed && !b.over.closed
	b.over.shown, b.over.closed = problem != nil, closed
	if changed && problem != nil {
		b.tell(news{name: Connection, err: problem})
	} else if changed {
		b.tell(news{name: Connection})
	}
	b.mu.Unlock()
	if !changed {
		return
	}
	logger := printable.Logger(klog.FromContext(ctx))
	if problem == nil && b.over.known.TellBack() {
		logger.Info("The connection to NATS works again")
	} else if problem != nil && b.over.known.TellDown() {
		logger.Error(problem.Err, "The connection to NATS is down")
	}
}

// uncover tells by its name what does not work though the connection is back for a while, or because it is closed for
// good.
func (b *Board) uncover(ctx context.Context) {
	state := b.over.known.State()
	if state.Disturbed() {
		return
	}
	why := fmt.Sprintf("it has not worked since the connection to NATS is back (%s)",
		state.Back.UTC().Format(time.RFC3339))
	if state.Closed {
		why = closedForGood
	}
	b.reporting.Lock()
	defer b.reporting.Unlock()
	b.mu.Lock()
	names := b.covered()
	told := map[string]error{}
	for _, name := range names {
		e := b.byName[name]
		e.covered, e.reason = false, reasonOf(e.Err) // the next report of the same is no news
		e.Err = fmt.Errorf("%s; it failed before with: %w", why, e.Err)
		if !e.logged {
			told[name] = e.Err
		}
		b.tell(news{name: name, err: e.Err})
	}
	b.mu.Unlock()
	logger := printable.Logger(klog.FromContext(ctx))
	for _, name := range slices.Sorted(maps.Keys(told)) {
		logDegraded(logger, name, told[name])
	}
}
