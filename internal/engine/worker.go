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
		of := t
		if e.sharing != nil {
			if of = e.sharing.enter(it.Key); of == nil { // another member has it, and is told of it, too
				e.causes.Forget(it.Key)
				e.sharing.pass(it)
				e.queue.Done(it.Key)
				continue
			}
		}
		if of.Over() {
			e.settle(of, it, &lifecycle.Outcome{Verdict: lifecycle.GivenBack}, nil)
			if of == t {
				return
			}
			continue
		}
		worker.Take(it.Key)
		it = e.APIs.Take(it)
		e.keys.EndAwaits(it.Key)
		o, write := e.handle(of, it)
		e.settle(of, it, &o, write)
		worker.Take("")
	}
}

// handle brings one key one step further. write is the write of its record that is under way; nil if there is none.
func (e *Engine) handle(t *lifecycle.Term, it queue.Item) (o lifecycle.Outcome, write *lifecycle.RecordWrite) {
	v := e.primary.View(it.Key)
	if v.Presence != source.Present && !e.WellFormed(it.Key) {
		return lifecycle.Outcome{Verdict: lifecycle.Malformed}, nil
	}
	switch {
	case v.IsComing():
		return *lookAgain(it, arrivingPause), nil // its event will be sooner
	case v.Presence == source.Absent:
		return e.handleAbsent(t, it), nil
	}
	e.APIs.ForgetAwaited(it.Key)
	if instead := e.life.Present(t, it, v); instead != nil {
		return *instead, nil
	}
	if v.Presence == source.Invalid {
		return e.handleInvalid(t, it, v), nil
	}
	if parked := lifecycle.StaysParked(&e.keys, it, v); parked != nil {
		return *parked, nil
	}
	return e.handlePresent(t, it, v)
}

func lookAgain(it queue.Item, after time.Duration) *lifecycle.Outcome {
	return &lifecycle.Outcome{Verdict: lifecycle.LookAgain, Ops: it.Ops, Prio: it.Prio, After: after}
}

// handleAbsent is for a primary that is gone.
func (e *Engine) handleAbsent(t *lifecycle.Term, it queue.Item) lifecycle.Outcome {
	it, instead := e.life.Absent(t, it)
	if instead != nil {
		return *instead
	}
	a, instead := e.call(t, it, false)
	if instead != nil {
		return *instead
	}
	return e.life.TearDown(t, it, a)
}

// handleInvalid is for a primary whose document does not decode.
func (e *Engine) handleInvalid(t *lifecycle.Term, it queue.Item, v view) lifecycle.Outcome {
	rest, first := e.reports.Look(it.Key)
	if rest > 0 { // of many invalid revisions in a row the record has the first, and then the last of each second
		return *lookAgain(it, rest)
	}
	why := lifecycle.NotDecodable(v, e.primary.StreamID())
	if first {
		e.eventOfView(it.Key, v, EventWarning, entity.ReasonInvalid, why)
	}
	return e.life.MarkNotReconciled(t, it, v, entity.ReasonInvalid, why)
}

// handlePresent reconciles a primary that exists.
func (e *Engine) handlePresent(
	t *lifecycle.Term, it queue.Item, v view,
) (o lifecycle.Outcome, write *lifecycle.RecordWrite) {
	anchor, instead, ahead := e.life.Prepare(t, it, v)
	if instead != nil {
		return *instead, ahead
	}
	a, instead := e.call(t, it, e.records != nil)
	if instead != nil {
		return *instead, nil
	}
	o = lifecycle.OutcomeOf(t, it, v, a)
	if a.Err != nil && t.Ctx.Err() != nil {
		return o, nil // the term is over, and with it the reconcile's context: the error says nothing about the primary
	}
	return o, e.life.WriteOutcome(t, it, v, anchor, o.Verdict, a)
}

// WellFormed tells whether the bucket can have such a key. Of one that it cannot have nothing can be read or written,
// so trying again would never end.
func (e *Engine) WellFormed(key string) bool {
	return !source.IsReserved(key) && e.primary.CheckKey(key) == nil
}
