package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Run runs what was added, until ctx ends or something fails. It installs no handler of signals: give it the context of
// controller.SignalContext, which ends with SIGINT or SIGTERM. A manager runs once.
//
// First what says so is started (see [First]), as a server of probes does. Then the caches of the clients and the
// Kubernetes informers are filled. When all are, the rest is started, all at once. A controller that waits for its
// lease counts as started.
//
// The first failure stops all, also while others are starting. Run then returns an error with the name of what failed,
// and after that what failed during the stop. A panic of a runnable is such a failure, with its stack. One that returns
// nil before the stop is done: it is logged, and the others go on. When all are done Run stops, and returns nil. It
// does not if something was added or removed while it ran, for then more may come: its context ends it, also where
// nothing is left that runs. See [Manager.Add] and [Manager.Remove].
//
// On a stop the contexts of all runnables end. Config.GracePeriod holds for the whole of what follows. Controllers let
// running reconciles go on with a live context for their own grace period, but not longer than four fifths of the
// manager's. What has not returned after nine tenths is named in the error and left behind. Then the functions of
// OnStop are called, so events are sent, and clients and informers are closed, in at most five seconds each. Last the
// connection is drained. If something was left behind it is closed instead, so that what goes on writes nothing any
// more: let the process end then.
//
// With Config.Only nothing of that happens: Run does what it says, and returns.
//
// A lost server does not end Run, a closed connection does. Run returns nil after a graceful stop.
func (m *Manager) Run(ctx context.Context) error {
	runnables, err := m.begin()
	if err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	defer close(m.over)
	if m.cfg.Only != "" {
		return m.runOnly(ctx, os.Stdout)
	}
	l := newLife(ctx, m)
	defer l.stop()
	l.begin(runnables)
	l.fillCaches()
	l.runAll()
	err = l.end()
	if err != nil {
		l.log.Error(err, "Stopped", "name", m.cfg.Name)
		return fmt.Errorf("manager: %w", err)
	}
	l.log.Info("Stopped", "name", m.cfg.Name)
	return nil
}

// begin returns what was added before.
func (m *Manager) begin() ([]*named, error) {
	gone := m.conn.IsClosed() // it waits while the connection dials
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state == running, m.state == stopping:
		return nil, errors.New("Run was called before, and runs: a manager runs once")
	case m.state == closed:
		return nil, errors.New("Run after Run or Close: a manager runs once, make a new one")
	case len(m.runnables) == 0:
		return nil, errors.New("nothing to run: Add a controller before Run")
	case gone:
		return nil, errors.New("the connection to NATS is closed: Run closes it, leave that to the manager")
	}
	m.state = running
	if m.cfg.Only != "" {
		m.state = stopping // nothing is started
	}
	return slices.Clone(m.runnables), nil
}

// begin starts what does not wait for the caches.
func (l *life) begin(runnables []*named) {
	for _, n := range runnables {
		if n.startsFirst() {
			l.log.V(2).Info("Starting", "what", n.name, "before", "the caches are filled")
			l.run(n)
		} else {
			l.waiting = append(l.waiting, &waiter{named: n})
		}
	}
}

// fillCaches fills the caches of clients and the Kubernetes informers.
func (l *life) fillCaches() {
	began := time.Now()
	clients := l.m.clients.unfilled()
	for _, c := range clients {
		l.fill(c.name(), c.fill)
	}
	for _, f := range l.m.factories {
		l.fill(f.name, func(ctx context.Context) error { return f.sync(ctx, l.informing.Done()) })
	}
	l.m.unfilled.remove(notBegun)
	first := maps.Clone(l.filling)
	for _, w := range l.waiting {
		w.waits = maps.Clone(first)
	}
	l.collect(l.ctx, func() bool {
		for t := range first {
			if l.filling[t] {
				return true
			}
		}
		return false
	})
	if l.ctx.Err() == nil {
		l.log.Info("Caches filled", "clients", len(clients), "informerFactories", len(l.m.factories),
			"took", time.Since(began).Round(time.Millisecond))
	}
}

// runAll runs the runnables until they have returned or all is to stop.
func (l *life) runAll() {
	if l.ctx.Err() != nil {
		return
	}
	if l.m.lease != nil {
		l.endLease = l.m.lead(l.ctx, &l.host)
	}
	l.filled = true
	l.startFilled()
	l.log.Info("Running", "name", l.m.cfg.Name, "runnables", len(l.going))
	for {
		l.collect(l.ctx, func() bool { return l.open || len(l.going)+len(l.waiting) > 0 })
		if l.ctx.Err() != nil {
			return
		}
		orders := l.m.takeOrders(true)
		if len(orders) == 0 {
			return
		}
		l.obey(orders) // they came in the last moment
	}
}

// end stops all and gives everything back, within the grace period.
func (l *life) end() error {
	l.log.Info("Stopping", "name", l.m.cfg.Name, "going", len(l.filling)+len(l.going),
		"gracePeriod", l.m.cfg.GracePeriod)
	l.stop()
	for orders := l.m.takeOrders(true); len(orders) > 0; orders = l.m.takeOrders(true) {
		l.obey(orders)
	}
	for _, w := range l.waiting {
		l.m.noteDone(w.named) // it is not started
	}
	ending := newDeadlines(l.m.cfg.GracePeriod)
	defer ending.Stop()
	defer context.AfterFunc(ending.Cancel, l.endGrace)()
	l.collect(ending.Leave, func() bool { return len(l.filling)+len(l.going) > 0 })
	l.endGrace()
	left := append(l.going.names(), l.filling.names()...)
	if len(left) > 0 {
		l.errs = append(l.errs, fmt.Errorf("what did not return within nine tenths of the grace period of %v was left "+
			"behind: %s", l.m.cfg.GracePeriod, strings.Join(left, ", ")))
	}
	if l.endLease != nil {
		l.errs = append(l.errs, ending.Last("lease of the process", l.endLease))
	}
	l.errs = append(l.errs, l.m.callHooks(ending))
	l.endInforming()
	for _, f := range l.m.factories {
		l.errs = append(l.errs, ending.Last(f.name, func(context.Context) error { f.Shutdown(); return nil }))
	}
	if l.disconnect != nil {
		l.m.conn.RemoveStatusListener(l.disconnect)
	}
	return errors.Join(append(l.errs, l.m.release(ending, len(left) > 0))...)
}
