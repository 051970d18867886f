package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
)

// life is one call of Run. Its goroutine alone touches it: goroutines that it has launched tell it by results, and who
// calls Add and Remove by orders.
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
	host         lease.Host                  // what runnables are told that do not start first
	endLease     func(context.Context) error // nil without a lease of the process

	results    chan result
	filling    tasks                    // caches that are filled
	waiting    []*waiter                // runnables that are to run when their caches are filled
	filled     bool                     // the caches of the beginning were filled
	going      tasks                    // the runnables that run, and what clears up after one
	running    map[*named]*runnableTask // those of them that are runnables
	open       bool                     // something was added or removed: more may come
	disconnect chan nats.Status
	errs       []error // the first failure first
}

// task is something that was launched and has not returned.
type task struct {
	of       tasks
	name     string
	cancel   context.CancelCauseFunc
	returned func(err error)
}

// tasks are some of them.
type tasks map[*task]bool

func (ts tasks) names() (names []string) {
	for t := range ts {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// result is how a task ended.
type result struct {
	*task
	err error
}

// waiter is a runnable that waits for caches.
type waiter struct {
	*named
	waits   tasks // until these caches are filled
	own     tasks // those of them that are filled because it was added
	removed bool
}

// runnableTask is a runnable that runs.
type runnableTask struct {
	*task
	removed bool
	// endGrace ends the time that its running reconciles have.
	endGrace context.CancelFunc
	graceful *time.Timer // calls it; nil until it is removed
}

func newLife(ctx context.Context, m *Manager) *life {
	l := &life{m: m, log: logger(ctx), disconnect: m.conn.StatusChanged(nats.CLOSED)}
	l.filling, l.going, l.running = tasks{}, tasks{}, map[*named]*runnableTask{}
	l.results = make(chan result)
	l.ctx, l.stop = context.WithCancel(ctx)
	l.grace, l.endGrace = context.WithCancel(context.Background())
	l.informing, l.endInforming = context.WithCancel(context.Background())
	return l
}

// launch runs something, one of l.filling or l.going. Its result comes whichever way it ends, and goes to returned.
func (l *life) launch(
	ctx context.Context, of tasks, name string, run func(context.Context) error, returned func(error),
) *task {
	t := &task{of: of, name: name, returned: returned}
	ctx, t.cancel = context.WithCancelCause(ctx)
	of[t] = true
	results, over := l.results, l.m.over
	go func() {
		err := errGoexit // stays if run ends its goroutine
		defer func() {
			select {
			case results <- result{t, err}:
			case <-over: // it was left behind
			}
		}()
		err = guard.Call(func() error { return run(ctx) })
	}()
	return t
}

var errGoexit = errors.New("it ended its goroutine by runtime.Goexit, as a test's FailNow does")

// collect takes results and orders while it goes on, until ctx ends.
func (l *life) collect(ctx context.Context, goesOn func() bool) {
	for goesOn() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-l.results:
			delete(r.of, r.task)
			r.cancel(nil)
			r.returned(r.err)
		case <-l.m.ordered:
			l.obey(l.m.takeOrders(false))
		case <-l.disconnect:
			l.disconnect = nil
			_ = l.fail("connection to NATS", errors.New("it was closed: only the manager may close it"))
		}
	}
}

// ended notes how something has ended, and returns the failure, if it is one.
func (l *life) ended(name string, err error) error {
	stopped := l.ctx.Err() != nil
	switch {
	case err == nil && !stopped:
		l.log.V(2).Info("Done", "what", name)
	case err != nil && !(stopped && l.isStop(err)):
		return l.fail(name, err)
	}
	return nil
}

// isStop reports whether an error says only that all was to stop.
func (l *life) isStop(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(l.ctx))
}

// fail notes a failure. The first one stops all.
func (l *life) fail(name string, err error) error {
	err = printable.Error(fmt.Errorf("%s: %w", name, err))
	l.errs = append(l.errs, err)
	if l.ctx.Err() == nil {
		l.log.Error(err, "Failed, all is stopped", "what", name)
		l.stop()
	}
	return err
}

// fill fills a cache. What waits for it starts when it is filled.
func (l *life) fill(name string, fill func(context.Context) error) (t *task) {
	unfilled, patience := &l.m.unfilled, l.m.cfg.CacheSyncTimeout
	unfilled.add(name)
	t = l.launch(l.ctx, l.filling, name, func(ctx context.Context) error {
		bounded, cancel := context.WithTimeoutCause(ctx, patience, errSyncTimeout)
		defer cancel()
		err := fill(bounded)
		if err == nil || errors.Is(context.Cause(ctx), errRemoved) {
			unfilled.remove(name)
		}
		return err
	}, func(err error) {
		if !errors.Is(err, errRemoved) {
			_ = l.ended(name, err)
		}
		for _, w := range l.waiting {
			delete(w.waits, t)
		}
		l.startFilled()
	})
	return t
}

// startFilled starts what has waited for long enough.
func (l *life) startFilled() {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		switch {
		case len(w.waits) > 0, l.ctx.Err() != nil:
			return false
		case w.removed:
			l.clearUp(w.named)
			return true
		case l.filled:
			l.log.V(2).Info("Starting", "what", w.name)
			l.run(w.named)
			return true
		}
		return false
	})
}

// run runs a runnable.
func (l *life) run(n *named) {
	host, r := l.host, &runnableTask{}
	if n.startsFirst() {
		host = lease.Host{} // no lease
	}
	host.Grace, r.endGrace = context.WithCancel(l.grace)
	r.task = l.launch(lease.With(l.ctx, host), l.going, n.name, n.Run, func(err error) {
		delete(l.running, n)
		r.endGrace()
		if !r.removed {
			n.err = l.ended(n.name, err)
			l.m.noteDone(n)
			return
		}
		if r.graceful != nil {
			r.graceful.Stop()
		}
		if err != nil && !errors.Is(err, errRemoved) && !l.isStop(err) {
			n.err = printable.Error(fmt.Errorf("%s: %w", n.name, err))
		}
		l.clearUp(n)
	})
	l.running[n] = r
}
