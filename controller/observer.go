package controller

import (
	"errors"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
)

// Observer is told of each reconcile, just before it begins and when it has ended; see WithObserver.
type Observer = engine.AttemptObserver

// Beginning is a reconcile that is about to begin, Ending one that has ended. Cause is a write that made the key due,
// of which a CauseTaker is told. A RunObserver is told of Run.
type (
	Beginning   = engine.Beginning
	Ending      = engine.Ending
	Cause       = engine.Cause
	CauseTaker  = engine.CauseTaker
	RunObserver = engine.RunObserver
)

// Attacher is an Observer that New tells whom it observes: the controller's name, and how to read its Stats.
type Attacher interface {
	Observer
	Attach(name string, stats func() Stats)
}

// WithObserver tells o of each reconcile, also of those of a primary that is gone. It may be given several times: the
// context of the first is the parent of that of the next. Begin and End must return quickly, since a worker waits for
// them.
func WithObserver(o Observer) Option {
	return func(opts *engine.Options) error {
		if guard.IsNil(o) {
			return errors.New("WithObserver(nil): an observer is needed; leave the option away instead")
		}
		opts.Observers = append(opts.Observers, o)
		return nil
	}
}
