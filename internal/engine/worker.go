package engine

import (
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

// arrivingPause is when a worker looks again for a document that the cache is about to have.
const arrivingPause = 20 * time.Millisecond

// work takes keys from the queue until the term is over.
func (e *Engine) work(t *lifecycle.Term) {
	worker := e.running.Worker()
	defer worker.Leave()
	for {
		it, ok := e.queue.Get(t.HandOut)
		if !ok {
			return
		}
		if t.Over() {
			e.settle(t, it, &lifecycle.Outcome{Verdict: lifecycle.GivenBack})
			return
		}
		worker.Take(it.Key)
		it = e.APIs.Take(it)
		e.keys.EndAwaits(it.Key)
		o := e.handle(t, it)
		e.settle(t, it, &o)
		worker.Take("")
	}
}

// handle brings one key one step further.
func (e *Engine) handle(t *lifecycle.Term, it queue.Item) lifecycle.Outcome {
	v := e.primary.View(it.Key)
	if v.Presence != source.Present && !e.WellFormed(it.Key) {
		return lifecycle.Outcome{Verdict: lifecycle.Malformed}
	}
	switch v.Presence {
	case source.Arriving:
		// Its event will be sooner.
		return lifecycle.Outcome{Verdict: lifecycle.LookAgain, Ops: it.Ops, Prio: it.Prio, After: arrivingPause}
	case source.Absent:
		return e.life.Absent(t, it)
	}
	e.APIs.ForgetAwaited(it.Key)
	if instead := e.life.Present(t, it, v); instead != nil {
		return *instead
	}
	if v.Presence == source.Invalid {
		rest, first := e.reports.Look(it.Key)
		if rest > 0 { // of many invalid revisions in a row the record has the first, and then the last of each second
			return lifecycle.Outcome{Verdict: lifecycle.LookAgain, Ops: it.Ops, Prio: it.Prio, After: rest}
		}
		why := lifecycle.NotDecodable(v, e.primary.StreamID())
		if first {
			e.eventOfView(it.Key, v, EventWarning, entity.ReasonInvalid, why)
		}
		return e.life.MarkNotReconciled(t, it, v, entity.ReasonInvalid, why)
	}
	if parked := lifecycle.StaysParked(&e.keys, it, v); parked != nil {
		return *parked
	}
	return e.handlePresent(t, it, v)
}

// handlePresent reconciles a primary that exists.
func (e *Engine) handlePresent(t *lifecycle.Term, it queue.Item, v view) lifecycle.Outcome {
	anchor, instead := e.life.Prepare(t, it, v)
	if instead != nil {
		return *instead
	}
	a, instead := e.Call(t, it, e.records != nil)
	if instead != nil {
		return *instead
	}
	o := lifecycle.OutcomeOf(t, it, v, a)
	if a.Err != nil && t.Ctx.Err() != nil {
		return o // the term is over, and with it the reconcile's context: the error says nothing about the primary
	}
	o.Write = e.life.WriteOutcome(t, it, v, anchor, o.Verdict, a)
	return o
}

// WellFormed tells whether the bucket can have such a key. Of one that it cannot have nothing can be read or written,
// so trying again would never end.
func (e *Engine) WellFormed(key string) bool {
	return !source.IsReserved(key) && e.primary.CheckKey(key) == nil
}
