package entity

import (
	"context"
	"errors"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
)

// flight is a write that was sent.
type flight struct {
	id         string
	subject    string
	answer     chan *nats.Msg // gets at most one; closed if there will be none
	sent       time.Time
	reconnects uint64 // the connection's count when the write was sent
	denied     *denials.Watch
}

// endFlightsLocked tells who waits for a write that no answer comes.
func (a *asyncWriter) endFlightsLocked() {
	for _, f := range a.flights {
		a.endFlightLocked(f)
	}
}

func (a *asyncWriter) endFlightLocked(f *flight) {
	if a.takeOffLocked(f.id) != nil {
		<-a.slots
		close(f.answer)
	}
}

// takeOffLocked returns the flight of that id and forgets it; nil if it is forgotten already. Its slot is still to be
// freed.
func (a *asyncWriter) takeOffLocked(id string) *flight {
	f := a.flights[id]
	if f != nil {
		delete(a.flights, id)
		f.denied.Stop()
	}
	return f
}

func (a *asyncWriter) answered(msg *nats.Msg) {
	id := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]
	a.mu.Lock()
	f := a.takeOffLocked(id)
	a.restLocked()
	a.mu.Unlock()
	if f != nil {
		<-a.slots
		f.answer <- msg
	}
}

// forget frees the slot of a flight, if it still has one.
func (a *asyncWriter) forget(f *flight) {
	a.mu.Lock()
	had := a.takeOffLocked(f.id) != nil
	a.restLocked()
	a.mu.Unlock()
	if had {
		<-a.slots
	}
}

// isLost reports whether the answer is overdue, was on its way to a connection that is gone, or cannot come because the
// user may not publish there.
func (a *asyncWriter) isLost(f *flight, patience time.Duration) bool {
	return time.Since(f.sent) > patience || a.nc.IsConnected() && a.nc.Stats().Reconnects != f.reconnects ||
		f.denied.Err() != nil
}

// wait returns the answer, or nil if none comes in time.
func (a *asyncWriter) wait(ctx context.Context, f *flight, patience time.Duration) *nats.Msg {
	select {
	case msg := <-f.answer:
		return msg
	default:
	}
	look := a.timers.Get().(*time.Timer)
	defer func() {
		look.Stop()
		a.timers.Put(look)
	}()
	for ctx.Err() == nil && !a.isLost(f, patience) { // may be lost already, if many were sent together
		look.Reset(asyncLook)
		select {
		case msg := <-f.answer:
			return msg
		case <-look.C:
		case <-ctx.Done():
		}
	}
	a.forget(f)
	select {
	case msg := <-f.answer: // it came at the last moment
		return msg
	default:
		return nil
	}
}

// putAsync sends w and returns a function that waits for the outcome that put would have. It blocks while too many
// writes are in flight. under is for the write's hook only.
func (b *bucket) putAsync(under context.Context, w write) (wait func(context.Context) (uint64, error)) {
	if err := b.takesWrites(under, w.key); err != nil {
		return func(context.Context) (uint64, error) { return 0, err }
	}
	if plan := dryrun.Of(under); plan != nil {
		revision, err := b.planned(under, plan, w)
		return func(context.Context) (uint64, error) { return revision, err }
	}
	if b.hook == nil {
		return b.applyAsync(w)
	}
	done := b.hook.begin(under, &w)
	outcome := b.applyAsync(w)
	return func(ctx context.Context) (uint64, error) {
		revision, err := outcome(ctx)
		done(err)
		return revision, err
	}
}

func (b *bucket) applyAsync(w write) (wait func(context.Context) (uint64, error)) {
	f, err := b.async.send(b.message(&w))
	if err != nil {
		return func(ctx context.Context) (uint64, error) { return b.settle(ctx, &w, false) }
	}
	return func(ctx context.Context) (uint64, error) { return b.landed(ctx, &w, f, asyncTimeout) }
}

// landed waits for the outcome of w, which was sent as f.
func (b *bucket) landed(ctx context.Context, w *write, f *flight, patience time.Duration) (uint64, error) {
	answer := b.async.wait(ctx, f, patience)
	if answer == nil {
		denied, ok := errors.AsType[*denials.Error](f.denied.Err())
		if ok && denied.Dropped {
			return 0, b.denied(w.key, denied, false)
		}
		return b.settle(ctx, w, true)
	}
	revision, err := b.acknowledged(f.subject, answer)
	if err == nil {
		b.denials.Granted(f.subject)
		return revision, nil
	}
	api, refused := errors.AsType[*apiError](err)
	if refused && isCASCode(api.ErrorCode) {
		ctx, cancel := withTimeout(ctx)
		defer cancel()
		if revision, err, settled := b.outcome(ctx, w, false, err); settled {
			return revision, err
		}
	}
	if refused && !isCASCode(api.ErrorCode) && api.isFinal() && !b.deniesRollup(api) {
		return 0, b.refused(w.key, api)
	}
	// After any other refusal, send again: the server refuses it again, or accepts it now. A rollup becomes a marker.
	return b.settle(ctx, w, !refused && !neverSent(err))
}
