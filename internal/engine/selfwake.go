package engine

import (
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trail implements source.Enqueuer.
func (e *Engine) Trail(key string) *loops.Trail { return e.keys.Trail(key) }

// TellOwners tells the trails of an object's owners of an event of that object. A source without a mapper calls it
// before its handler; elsewhere the mapper's call does it.
func (e *Engine) TellOwners(s fmt.Stringer, before, after metav1.Object) {
	if !e.keys.Watches() {
		return
	}
	told := ""
	for _, obj := range []metav1.Object{before, after} {
		if obj == nil {
			continue
		}
		named, _ := e.Claim().OwnerOf(obj)
		key := e.hashes.KeyOf(named, e.primary.Keys)
		if trail := e.keys.Trail(key); trail != nil && key != told {
			source.Tell(trail, s, before, after)
			told = key
		}
	}
}

// beginWatched tells after which pause a key may be reconciled that has caused its own runs; 0: now.
func (e *Engine) beginWatched(t *lifecycle.Term, it queue.Item, trail *loops.Trail, now time.Time) time.Duration {
	began := trail.Begin(now, it.Ops)
	switch {
	case began.Pause > 0:
		return began.Pause
	case began.Trip != nil:
		e.stats.Loops.Add(1)
		e.keys.Amend(it.Key, func(s *keytable.State) { s.Looping = true })
		message := began.Trip.Message()
		t.Logger.Info("Reconcile wakes itself", "key", it.Key, "what", message)
		e.warn(it.Key, loops.Reason, message)
	case began.Real:
		e.keys.Amend(it.Key, func(s *keytable.State) { s.Looping = false })
	}
	return 0
}

// noteRun notes what a run did that may cause the next one. A RequeueAfter that is no pause becomes the shortest.
func (e *Engine) noteRun(key string, trail *loops.Trail, a *lifecycle.Attempt) {
	short := a.Err == nil && a.Requeue > 0 && a.Requeue < loops.ShortestRequeue
	if short {
		a.Requeue = loops.ShortestRequeue
	}
	switch {
	case trail != nil:
		// One that failed for good is parked: its own writes wake it ever more rarely.
		if !trail.End(time.Now(), a.Wrote, short, a.Err != nil) || lifecycle.IsTerminal(a.Err) {
			e.suspects.Calm(key)
			e.keys.Amend(key, func(s *keytable.State) { s.Loop, s.Looping = nil, false })
		}
	case !a.Wrote && !short:
		e.suspects.Calm(key)
	case e.suspects.Busy(key):
		e.keys.Watch(key)
	}
}
