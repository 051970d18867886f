package worlds

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

// attempt is one call of a reconciler.
type attempt struct {
	by  string
	n   int
	ctx context.Context
}

// Reconciler is r as the night has it: sometimes it is slow, fails, panics or is stuck.
func (p *Process) Reconciler(r controller.Reconciler) controller.Reconciler {
	return controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		w := p.world
		run, end := w.begins(ctx, p.Name, req)
		result, err := p.inTheMood(ctx, r, req, run)
		end(err)
		return result, err
	})
}

// begins notes an attempt, and holds that no other is under way.
func (w *world) begins(ctx context.Context, by string, req controller.Request) (run int, end func(error)) {
	w.mu.Lock()
	w.runs++
	run = w.runs
	other, busy := w.running[req.Key]
	w.running[req.Key] = attempt{by, run, ctx}
	meets := w.meetsALeaderLocked(by) || w.meetsALeaderLocked(other.by)
	w.mu.Unlock()
	if busy && other.ctx.Err() == nil && !meets {
		w.breaks(OneAttempt, "%s reconciles %s (%d) while %s does (%d)", by, req.Key, run, other.by, other.n)
	}
	w.note(by, "reconciles %s for %v (%d)", req.Key, req.Operations, run)
	return run, func(err error) {
		w.mu.Lock()
		if w.running[req.Key].n == run {
			delete(w.running, req.Key)
		}
		w.mu.Unlock()
		w.note(by, "has reconciled %s: %v (%d)", req.Key, err, run)
	}
}

// meetsALeaderLocked reports whether a process may work beside one that led, for as long as a lease lasts: it started on
// a server that has come back empty, or records were put back whose lease names it.
func (w *world) meetsALeaderLocked(name string) bool {
	recent := func(at time.Time) bool { return !at.IsZero() && time.Since(at) < settingsOf(w.plan).lease.Duration }
	return recent(w.emptied) && !w.starts[name].Before(w.emptied) || recent(w.revived.at) && w.revived.name == name
}

var errMood = errors.New("an error of the reconciler")

// inTheMood calls a reconciler, or does what the world is in the mood for: once in three times.
func (p *Process) inTheMood(
	ctx context.Context, r controller.Reconciler, req controller.Request, run int,
) (controller.Result, error) {
	w := p.world
	dice := w.plan.Dice(req.Key, run)
	is := func(d deed) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.mood[d] > 0 && dice.IntN(3) == 0
	}
	switch {
	case is(fails):
		return controller.Result{}, errMood
	case is(panics):
		w.forget(req.Key, run)
		panic(errMood)
	case is(slowly):
		sleep(ctx, between(dice, 0, 20*time.Second))
	case is(stuck):
		sleep(ctx, 90*time.Second)
	case is(half):
		_, err := r.Reconcile(ctx, req)
		return controller.Result{}, errors.Join(err, errMood)
	}
	return r.Reconcile(ctx, req)
}

func (w *world) forget(key string, run int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[key].n == run {
		delete(w.running, key)
	}
}
