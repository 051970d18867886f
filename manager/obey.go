package manager

import (
	"context"
	"maps"
	"slices"
	"time"
)

// obey does what was ordered, in order.
func (l *life) obey(orders []command) {
	for _, o := range orders {
		l.open = true
		if o.remove != nil {
			l.remove(o.remove)
		} else {
			l.add(o.add)
		}
	}
}

// add starts what was added, when the caches that are new have been filled, and those that are being filled: it may
// use each of them. It does not wait for those of what is added later.
func (l *life) add(runnables []*named) {
	if l.ctx.Err() != nil {
		l.m.noteDone(runnables...) // nothing is started any more
		return
	}
	clients, own := l.m.clients.unfilled(), tasks{}
	for _, c := range clients {
		own[l.fill(c.name(), c.fill)] = true
	}
	for _, n := range runnables {
		if n.startsFirst() {
			l.run(n)
			continue
		}
		n.filled = clients
		l.waiting = append(l.waiting, &waiter{named: n, waits: maps.Clone(l.filling), own: own})
	}
	l.startFilled()
}

// remove ends one runnable.
func (l *life) remove(n *named) {
	if i := slices.IndexFunc(l.waiting, func(w *waiter) bool { return w.named == n }); i >= 0 {
		l.removeWaiting(l.waiting[i])
		return
	}
	r := l.running[n]
	if r == nil { // it is done
		l.clearUp(n)
		return
	}
	r.removed = true
	r.cancel(errRemoved)
	if period := l.m.cfg.GracePeriod; period >= 0 {
		r.graceful = time.AfterFunc(cancelAfter(period), r.endGrace)
	}
}

// removeWaiting ends the filling of the caches that were filled for it alone.
func (l *life) removeWaiting(w *waiter) {
	w.removed = true
	if slices.ContainsFunc(l.waiting, func(other *waiter) bool { return !other.removed && other.waitsForAny(w.own) }) {
		w.filled, w.own = nil, nil
	}
	maps.DeleteFunc(w.waits, func(t *task, _ bool) bool { return !w.own[t] })
	for t := range w.waits {
		t.cancel(errRemoved)
	}
	l.startFilled()
}

func (w *waiter) waitsForAny(of tasks) bool {
	for t := range of {
		if w.waits[t] {
			return true
		}
	}
	return false
}

// clearUp gives back what is left of a runnable that was removed and does not run. At the end of Run all of that goes
// anyway.
func (l *life) clearUp(n *named) {
	if l.ctx.Err() != nil {
		l.gone(n)
		return
	}
	m, filled := l.m, n.filled
	l.launch(l.ctx, l.going, n.name, func(context.Context) error {
		m.mu.Lock()
		m.withdraw(n)
		m.mu.Unlock()
		m.clients.retire(filled)
		return nil
	}, func(err error) {
		_ = l.ended(n.name, err)
		l.gone(n)
	})
}

func (l *life) gone(n *named) {
	l.log.V(2).Info("Removed", "what", n.name)
	l.m.noteDone(n)
	close(n.gone)
}
