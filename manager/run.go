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

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
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
// nil before the stop is done: it is logged, and the others go on. When all are done Run stops, and returns nil.
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
	if err := m.begin(); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	if m.cfg.Only != "" {
		return m.runOnly(ctx, os.Stdout)
	}
	l := newLife(ctx, m)
	defer l.stop()
	l.startFirst()
	l.fillCaches()
	l.runAll()
	err := l.end()
	if err != nil {
		l.log.Error(err, "Stopped", "name", m.cfg.Name)
		return fmt.Errorf("manager: %w", err)
	}
	l.log.Info("Stopped", "name", m.cfg.Name)
	return nil
}

func (m *Manager) begin() error {
	gone := m.conn.IsClosed() // it waits while the connection dials
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state == running:
		return errors.New("Run was called before, and runs: a manager runs once")
	case m.state == closed:
		return errors.New("Run after Run or Close: a manager runs once, make a new one")
	case len(m.runnables) == 0:
		return errors.New("nothing to run: Add a controller before Run")
	case gone:
		return errors.New("the connection to NATS is closed: Run closes it, leave that to the manager")
	}
	m.state = running
	return nil
}

// result is how something ended.
type result struct {
	of   map[string]int
	name string
	err  error
}

// life is one call of Run. Its goroutine alone touches it.
type life struct {
	m    *Manager
	log  klog.Logger
	ctx  context.Context // ends when all is to stop
	stop context.CancelFunc
	// grace ends when running reconciles have had their time.
	grace    context.Context
	endGrace context.CancelFunc
	// informing ends after all that may use the Kubernetes informers.
	informing    context.Context
	endInforming context.CancelFunc
	endLease     func(context.Context) error // nil without a lease of the process

	results    chan result
	filling    map[string]int // caches that are filled: how many of each name have not returned
	going      map[string]int // the runnables, likewise
	disconnect chan nats.Status
	errs       []error // the first failure first
}

func newLife(ctx context.Context, m *Manager) *life {
	l := &life{m: m, log: logger(ctx), disconnect: m.conn.StatusChanged(nats.CLOSED)}
	l.filling, l.going = map[string]int{}, map[string]int{}
	l.results = make(chan result, len(m.runnables)+len(m.factories)+len(m.clients.caches()))
	l.ctx, l.stop = context.WithCancel(ctx)
	l.grace, l.endGrace = context.WithCancel(context.Background())
	l.informing, l.endInforming = context.WithCancel(context.Background())
	return l
}

// launch runs something, one of l.filling or l.going. Its result comes whichever way it ends.
func (l *life) launch(ctx context.Context, of map[string]int, name string, run func(context.Context) error) {
	of[name]++
	results := l.results
	go func() {
		err := errGoexit // stays if run ends its goroutine
		defer func() { results <- result{of, name, err} }()
		err = guard.Call(func() error { return run(ctx) })
	}()
}

var errGoexit = errors.New("it ended its goroutine by runtime.Goexit, as a test's FailNow does")

// collect takes results until nothing of these goes on any more, or ctx ends.
func (l *life) collect(ctx context.Context, of ...map[string]int) {
	goesOn := func(of map[string]int) bool { return len(of) > 0 }
	for slices.ContainsFunc(of, goesOn) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-l.results:
			l.returned(r)
		case <-l.disconnect:
			l.disconnect = nil
			l.fail("connection to NATS", errors.New("it was closed: only the manager may close it"))
		}
	}
}

func (l *life) returned(r result) {
	if r.of[r.name]--; r.of[r.name] == 0 {
		delete(r.of, r.name)
	}
	stopped := l.ctx.Err() != nil
	switch {
	case r.err == nil && !stopped:
		l.log.V(2).Info("Done", "what", r.name)
	case r.err != nil && !(stopped && l.isStop(r.err)):
		l.fail(r.name, r.err)
	}
}

// isStop reports whether an error says only that all was to stop.
func (l *life) isStop(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(l.ctx))
}

// fail notes a failure. The first one stops all.
func (l *life) fail(name string, err error) {
	err = printable.Error(fmt.Errorf("%s: %w", name, err))
	l.errs = append(l.errs, err)
	if l.ctx.Err() == nil {
		l.log.Error(err, "Failed, all is stopped", "what", name)
		l.stop()
	}
}

// startFirst starts what does not wait for the caches.
func (l *life) startFirst() {
	ctx := lease.With(l.ctx, lease.Host{Grace: l.grace})
	for _, r := range l.m.runnables {
		if r.startsFirst() {
			l.log.V(2).Info("Starting", "what", r.name, "before", "the caches are filled")
			l.launch(ctx, l.going, r.name, r.Run)
		}
	}
}

// fillCaches fills the caches of clients and the Kubernetes informers.
func (l *life) fillCaches() {
	began := time.Now()
	bounded, cancel := context.WithTimeoutCause(l.ctx, l.m.cfg.CacheSyncTimeout, errSyncTimeout)
	defer cancel()
	caches := l.m.clients.caches()
	fill := func(name string, fill func(context.Context) error) {
		l.m.unfilled.add(name)
		l.launch(bounded, l.filling, name, func(ctx context.Context) error {
			err := fill(ctx)
			if err == nil {
				l.m.unfilled.remove(name)
			}
			return err
		})
	}
	for _, c := range caches {
		fill(c.name(), c.fill)
	}
	for _, f := range l.m.factories {
		fill(f.name, func(ctx context.Context) error { return f.sync(ctx, l.informing.Done()) })
	}
	l.m.unfilled.remove(notBegun)
	l.collect(l.ctx, l.filling)
	if l.ctx.Err() == nil {
		l.log.Info("Caches filled", "clients", len(caches), "informerFactories", len(l.m.factories),
			"took", time.Since(began).Round(time.Millisecond))
	}
}

// runAll runs the runnables until they have returned or all is to stop.
func (l *life) runAll() {
	if l.ctx.Err() != nil {
		return
	}
	host := lease.Host{Grace: l.grace}
	if l.m.lease != nil {
		l.endLease = l.m.lead(l.ctx, &host)
	}
	ctx := lease.With(l.ctx, host)
	for _, r := range l.m.runnables {
		if !r.startsFirst() {
			l.log.V(2).Info("Starting", "what", r.name)
			l.launch(ctx, l.going, r.name, r.Run)
		}
	}
	l.log.Info("Running", "name", l.m.cfg.Name, "runnables", len(l.m.runnables))
	l.collect(l.ctx, l.going)
}

// end stops all and gives everything back, within the grace period.
func (l *life) end() error {
	l.log.Info("Stopping", "name", l.m.cfg.Name, "going", len(l.filling)+len(l.going),
		"gracePeriod", l.m.cfg.GracePeriod)
	l.stop()
	ending := newDeadlines(l.m.cfg.GracePeriod)
	defer ending.Stop()
	defer context.AfterFunc(ending.Cancel, l.endGrace)()
	l.collect(ending.Leave, l.filling, l.going)
	l.endGrace()
	left := slices.Sorted(maps.Keys(l.going))
	left = append(left, slices.Sorted(maps.Keys(l.filling))...)
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
