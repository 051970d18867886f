package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
)

func (e *Engine) newBrake() *brake.Brake {
	var changed func()
	if e.sharing != nil {
		changed = func() { notifyOf(e.sharing.changed) }
	}
	return brake.New(brake.Config{
		Shared: e.sharing != nil, Changed: changed, Lease: e.opts.Lease.Duration,
		Primaries:   lifecycle.BrakePrimaries{Primary: e.primary, Keys: &e.keys},
		Anchors:     brake.RecordAnchors{Records: e.records},
		Secondaries: e.teardown.StampsOfMissing,
		Marked:      e.teardown.Marked,
		OwnedBy:     e.teardown.CountOwnedBy,
		Owned:       e.teardown.CountOwned,
		Bucket:      e.reserved,
		Window:      e.opts.BrakeWindow,
		Enqueue:     e.queue.Add,
		Backlog:     func() bool { return e.queue.Counts().Ready[queue.BandBackground] > 0 },
		Tell:        e.brakeChanged,
		Ignored: func(_ context.Context, message string) {
			e.EventOfSelf(EventWarning, "BrakeReleaseIgnored", message)
		},
		Board:   e.health,
		Restore: e.restoreCommand(),
		Orphans: e.orphanCommands(),
	})
}

// restoreCommand is how an operator puts vanished documents back; nil where nothing beside the controller offers it.
func (e *Engine) restoreCommand() func(engagement string) string {
	for _, beside := range e.opts.Beside {
		if s, ok := beside.(interface {
			RestoreCommand(controller, engagement string) string
		}); ok {
			return func(engagement string) string { return s.RestoreCommand(e.name, engagement) }
		}
	}
	return nil
}

// orphanCommands are how an operator lists and deletes orphans; zero where nothing beside the controller offers it.
func (e *Engine) orphanCommands() (c brake.OrphanCommands) {
	for _, beside := range e.opts.Beside {
		if s, ok := beside.(interface {
			OrphanCommands(controller string) (list, remove string)
		}); ok {
			c.ToList, c.ToDelete = s.OrphanCommands(e.name)
		}
	}
	return c
}

// brakeChanged tells the counters, the user's callback and the event recorder that the brake engaged or went off.
func (e *Engine) brakeChanged(ctx context.Context, state brake.State, message string) {
	eventType, reason := EventNormal, "BrakeReleased"
	if state.Engaged {
		eventType, reason = EventWarning, "BrakeEngaged"
		e.stats.BrakeEngaged.Add(1)
	} else {
		e.sweeper.SweepLater() // what it held back of the last sweep is looked at again
	}
	if f := e.opts.OnBrake; f != nil {
		e.callback(ctx, "WithOnBrake", func() { f(state) })
	}
	e.EventOfSelf(eventType, reason, message)
}

// RequestRelease stores a request for a release, as an operator's put does: the brake judges what it names.
func (e *Engine) RequestRelease(ctx context.Context, r record.Release) error {
	return record.JSON[record.Release](e.reserved, record.KeyRelease).Store(ctx, r)
}

// newBoard makes the board. It tells the event recorder, and the user's callback, of what does not work.
func (e *Engine) newBoard() *health.Board {
	var tell func(ctx context.Context, name string, err error)
	if f := e.opts.OnSourceError; f != nil {
		tell = func(ctx context.Context, name string, err error) {
			e.callback(ctx, "WithOnSourceError", func() { f(name, err) })
		}
	}
	if e.recorder == nil {
		return health.New(tell)
	}
	outages := &outages{Self: e.EventOfSelf, Sources: e.sources.Group, StatusBucket: e.statusBucket}
	board := health.New(outages.Before(tell))
	board.OnLeave(func(ctx context.Context, name string) {
		outages.Left(name)
		if tell != nil {
			tell(ctx, name, nil)
		}
	})
	return board
}

// Brake is the brake; nil without teardown.
func (e *Engine) Brake() *brake.Brake { return e.brake }
