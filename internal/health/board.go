// Package health keeps what does not work now, and tells of each change once.
//
// The rule: a source that fails again for the same reason is no news. A report never waits for the user's callback,
// which [Board.Run] calls in the order of the changes. Rooms report under a name: with [Board.Change], or, where that
// happens often, with a [Reporter].
package health

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// Board is what does not work now, by name. It logs each change, and tells one callback of it. A change is that
// something fails that worked, works that failed, or fails for another reason. All methods may be called concurrently.
type Board struct {
	onChange func(ctx context.Context, name string, err error) // nil: no callback
	onLeave  func(ctx context.Context, name string)            // see OnLeave

	reporting sync.Mutex // held while a reporter is asked, so that the newest answer is noted last

	over *link // nil: what fails is not the connection's fault

	mu     sync.Mutex
	byName map[string]*entry
	news   []news // the callback was not told of them yet
	wake   chan struct{}
}

// entry is what does not work under one name.
type entry struct {
	Problem
	reason string // that was told, see reasonOf
	// covered says that it is not told by its name: the connection is down, which is.
	covered bool
	term    *Term // under whose context it was reported; nil: it is no term's
	// logged says that another logs it.
	logged bool
}

type news struct {
	name string
	err  error
	left bool // if err is nil: it is not known to work again
}

// New returns a board on which everything works. Run calls onChange, which may be nil: with the reason, or with nil
// when it works again.
func New(onChange func(ctx context.Context, name string, err error)) *Board {
	return &Board{onChange: onChange, byName: map[string]*entry{}, wake: make(chan struct{}, 1)}
}

// OnLeave has Run call left instead of the callback of New with what a term has left, see Leave. It must be called
// before all other methods.
func (b *Board) OnLeave(left func(ctx context.Context, name string)) { b.onLeave = left }

// Set reports why something does not work; nil if it does. It does not wait for the callback.
func (b *Board) Set(ctx context.Context, name string, err error) {
	b.Change(ctx, name, func() error { return err })
}

// Change reports what now returns. It asks under a lock: of two reports at once the one that is noted last is the
// newer, so that nothing stays on the board that works again. now must not report itself.
func (b *Board) Change(ctx context.Context, name string, now func() error) {
	b.change(ctx, name, now, how{})
}

// Show is Set for what another logs: the lease of a process concerns each of its controllers, and is one line.
func (b *Board) Show(ctx context.Context, name string, err error) {
	b.change(ctx, name, func() error { return err }, how{logged: true})
}

// reportedElsewhere is what the log says of what is taken off the board and not known to work again.
const reportedElsewhere = "Source is reported here no more: the term is over, and the next leader reports it"

// Leave is Change at the end of a term, whose problems are the next leader's to report: nothing is known to work again,
// and the log does not say so.
func (b *Board) Leave(ctx context.Context, name string, now func() error) {
	b.change(ctx, name, now, how{leaves: true})
}

// Forget takes off the board what is not reported any more because it was taken away. Nothing is known to work again,
// and the log says nothing.
func (b *Board) Forget(ctx context.Context, name string) {
	b.Recall(ctx, name, func() error { return nil })
}

// Recall is Forget of what one of several has reported under a name. now returns what another still says; nil if none
// does.
func (b *Board) Recall(ctx context.Context, name string, now func() error) {
	b.change(ctx, name, now, how{leaves: true, logged: true})
}

// how says of a report that its term leaves, and that another logs it.
type how struct{ leaves, logged bool }

func (b *Board) change(ctx context.Context, name string, now func() error, by how) {
	b.reporting.Lock()
	defer b.reporting.Unlock()
	term := termOf(ctx)
	if term != nil && term.over && !by.leaves {
		return // it would never be taken off
	}
	err := printable.Error(now()) // part of it may be text of others
	defer b.tellLink(ctx)
	if !b.note(news{name, err, by.leaves}, term, err != nil && b.explains(name), by.logged) || by.logged {
		return
	}
	logger := printable.Logger(klog.FromContext(ctx))
	switch {
	case err == nil && by.leaves:
		logger.Info(reportedElsewhere, "source", name)
	case err == nil:
		logger.Info("Source works again", "source", name)
	default:
		logDegraded(logger, name, err)
	}
}

func logDegraded(logger klog.Logger, name string, err error) {
	logger.Error(err, "Source degraded, the rest goes on", "source", name)
}

// note reports whether this is a change that is told by its name. covered says that the connection is the reason.
func (b *Board) note(n news, term *Term, covered, logged bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, err := n.name, n.err
	before, failing := b.byName[name]
	if err == nil {
		delete(b.byName, name)
		return failing && !before.covered && b.tell(n)
	}
	if !failing {
		before = &entry{Problem: Problem{Since: time.Now()}, covered: true} // not told yet
	}
	// Of what was told by its name before, the connection is another reason, which is told by its own.
	if failing && n.left {
		term = before.term // who leaves has not found it
	}
	now := &entry{Problem{before.Since, err}, before.reason, before.covered && covered, term, logged}
	if problem, dated := errors.AsType[*Problem](err); dated {
		now.Problem = Problem{Since: problem.Since, Err: printable.Error(problem.Err)}
	}
	b.byName[name] = now
	if covered {
		select {
		case b.over.more <- struct{}{}:
		default:
		}
		return false
	}
	reason := reasonOf(err)
	changed := before.covered || reason != now.reason
	now.reason = reason
	return changed && b.tell(n)
}

// reasonOf is the reason by which errors under one name are compared.
func reasonOf(err error) string { return notify.ButExamples(notify.Reason(err)) }

// tell has the callback told. The mutex must be held. It returns true.
func (b *Board) tell(n news) bool {
	if b.onChange != nil {
		b.news = append(b.news, n)
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// Degraded returns what does not work now, as Problems. While the connection is down, or was a moment ago, what waits
// for it is in the one problem named [Connection]. The caller may change the map.
func (b *Board) Degraded() map[string]error {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := b.linkProblem()
	if len(b.byName) == 0 && problem == nil {
		return nil
	}
	degraded := make(map[string]error, len(b.byName))
	for name, e := range b.byName {
		if !e.covered {
			degraded[name] = &Problem{e.Since, e.Err}
		}
	}
	if problem != nil {
		degraded[Connection] = problem
	}
	return degraded
}

// ByName is Degraded with each thing under its own name, and without the connection.
func (b *Board) ByName() map[string]error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]error, len(b.byName))
	for name, e := range b.byName {
		all[name] = &Problem{e.Since, e.Err}
	}
	return all
}

// Run tells the callback, in order and without a lock, until ctx ends. It tells what is known by then before it
// returns. The callback's context has the values of ctx, and does not end with it.
func (b *Board) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	for ended := false; !ended; {
		select {
		case <-b.wake:
		case <-ctx.Done():
			ended = true
		}
		for _, n := range b.takeNews() {
			if n.left && n.err == nil && b.onLeave != nil {
				b.onLeave(lasting, n.name)
			} else {
				b.onChange(lasting, n.name, n.err)
			}
		}
	}
}

func (b *Board) takeNews() []news {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.news
	b.news = nil
	return taken
}
