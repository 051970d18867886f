package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// arrivingPause is when a worker looks again for a document that the cache is about to have.
const arrivingPause = 20 * time.Millisecond

// work takes keys from the queue until the term is over.
func (e *Engine) work(t *term) {
	for {
		it, ok := e.queue.Get(t.handing)
		if !ok {
			return
		}
		if t.over() {
			e.settle(t, it, &outcome{verdict: givenBack})
			return
		}
		it = e.APIs.Take(it)
		o := e.handle(t, it)
		e.settle(t, it, &o)
	}
}

// handle brings one key one step further.
func (e *Engine) handle(t *term, it queue.Item) outcome {
	if !e.WellFormed(it.Key) {
		return outcome{verdict: malformed}
	}
	v := e.primary.View(it.Key)
	switch v.Presence {
	case source.Arriving:
		return outcome{verdict: lookAgain, ops: it.Ops, prio: it.Prio, after: arrivingPause} // its event will be sooner
	case source.Absent:
		return e.life.absent(t, it)
	}
	e.APIs.ForgetAwaited(it.Key)
	if instead := e.life.exists(t, it, v); instead != nil {
		return *instead
	}
	switch {
	case v.Presence == source.Invalid:
		if it.Ops.Has(operation.Put) {
			e.event(e.regarding(it.Key, v), eventWarning, entity.ReasonInvalid, notDecodable)
		}
		return e.life.rest(t, it, v, entity.ReasonInvalid, notDecodable)
	case e.keys.StaysParked(it.Key, v, it.Ops):
		return outcome{}
	}
	return e.handlePresent(t, it, v)
}

const notDecodable = "the document does not decode; it is reconciled once it does"

// handlePresent reconciles a primary that exists.
func (e *Engine) handlePresent(t *term, it queue.Item, v view) outcome {
	anchor, instead := e.life.prepare(t, it, v)
	if instead != nil {
		return *instead
	}
	a, instead := e.call(t, it, e.records != nil)
	if instead != nil {
		return *instead
	}
	o := came(it, v, a)
	if a.err != nil && t.ctx.Err() != nil {
		return o // the term is over, and with it the reconcile's context: the error says nothing about the primary
	}
	o.write = e.life.record(t, it, v, anchor, o.verdict, a)
	return o
}

// lifecycle is what a controller keeps of its primaries beyond this process: records, which make deletes safe, or nothing
// (WithoutTeardown).
type lifecycle interface {
	// exists is told of a key that has a document; instead is not nil if the key must not go on.
	exists(t *term, it queue.Item, v view) (instead *outcome)
	// rest notes why a primary that exists is not reconciled.
	rest(t *term, it queue.Item, v view, reason, message string) outcome
	// prepare makes sure that the delete of the primary could not be lost. anchor is its record.
	prepare(t *term, it queue.Item, v view) (anchor *entity.Record, instead *outcome)
	// record is the write of what came of an attempt; nil if there is nothing to write.
	record(t *term, it queue.Item, v view, anchor *entity.Record, came verdict, a attempt) *recordWrite
	// absent brings the key of a primary that is gone one step further.
	absent(t *term, it queue.Item) outcome
}

// unrecorded is the lifecycle WithoutTeardown: a delete is reconciled if this process sees it.
type unrecorded struct{ engine *Engine }

func (u unrecorded) exists(*term, queue.Item, view) *outcome { return nil }

func (u unrecorded) rest(*term, queue.Item, view, string, string) outcome {
	return outcome{verdict: rests}
}

func (u unrecorded) prepare(t *term, it queue.Item, v view) (*entity.Record, *outcome) {
	if v.Suspended() {
		return nil, &outcome{verdict: rests}
	}
	return nil, nil
}

func (u unrecorded) record(*term, queue.Item, view, *entity.Record, verdict, attempt) *recordWrite {
	return nil
}

func (u unrecorded) absent(t *term, it queue.Item) outcome {
	e := u.engine
	if e.keys.StaysParked(it.Key, view{}, it.Ops) {
		return outcome{}
	}
	a, instead := e.call(t, it, false)
	if instead != nil {
		return *instead
	}
	o := came(it, view{}, a)
	if o.verdict == succeeded && o.after <= 0 {
		o.verdict = nothingOwed
	}
	return o
}

func (e *Engine) event(obj any, eventType, reason, message string) {
	if r, ok := obj.(runtime.Object); ok && e.opts.Recorder != nil {
		e.callback(context.Background(), "WithEventRecorder", func() { e.opts.Recorder.Event(r, eventType, reason, message) })
	}
}

// regarding is the object of an event: the primary as it was last known, or what stands for one that never was.
func (e *Engine) regarding(key string, v view) any {
	if v.Object != nil {
		return v.Object
	}
	primary := &entity.Object[struct{}, struct{}]{}
	primary.Kind = e.Kind
	primary.Namespace, primary.Name, _ = cache.SplitMetaNamespaceKey(key) // it is well formed
	return primary
}
