package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
	"k8s.io/klog/v2"
)

// Sources come and go while the engine runs. The rules:
//
//   - One that is added has not synced at first, so it is as an optional one until it has: nothing is deleted because
//     of what it does not show, teardowns wait for it, and when it comes the brake counts what it shows.
//   - One that is taken away is as if the controller had been made without it. What primaries own there stays, and a
//     teardown that is owed does not look there. Its events are heard no more, and nothing of it is left.
//   - One change is made at a time. None is made while Run starts or stops.

// changes are the state of that, which whoever has the turn may touch.
type changes struct {
	turn.Turn
	life  context.Context // of the sources, once those of New have synced; nil before
	ready chan struct{}   // closed then
	over  chan struct{}   // closed when sources are taken down, or Run has ended
	down  chan struct{}   // closed when they are
	added []*Added
}

func newChanges() changes {
	return changes{
		Turn: turn.New(), ready: make(chan struct{}), over: make(chan struct{}), down: make(chan struct{}),
	}
}

// AddSource adds the source that an option of New describes.
func (e *Engine) AddSource(ctx context.Context, option func(*Options) error) (*Added, error) {
	a, err := e.addSource(ctx, option)
	if err != nil {
		return nil, fmt.Errorf("controller %q: add a source: %w", e.name, err)
	}
	return a, nil
}

func (e *Engine) addSource(ctx context.Context, option func(*Options) error) (*Added, error) {
	if err := e.takeChange(ctx); err != nil {
		return nil, err
	}
	defer e.changes.Give()
	a, build, err := e.described(option)
	if err != nil {
		return nil, err
	}
	if a.source, err = build(e); err != nil {
		return nil, err
	}
	if err := e.divide(a.source); err != nil {
		return nil, err
	}
	if e.changes.life == nil { // Run starts it
		err = e.admit(a.source)
	} else {
		err = e.startLate(a)
	}
	if err != nil {
		return nil, err
	}
	e.changes.added = append(e.changes.added, a)
	return a, nil
}

var errSourcesOver = errors.New("the controller stops, or has stopped")

// takeChange takes the turn to change sources: before Run, or while it runs and the sources have synced.
func (e *Engine) takeChange(ctx context.Context) error {
	for {
		if e.started.Load() {
			select {
			case <-e.changes.ready:
			case <-e.changes.over:
				return errSourcesOver
			case <-ctx.Done():
				return fmt.Errorf("the sources that it has have not synced yet: %w", context.Cause(ctx))
			}
		}
		if err := e.changes.Take(ctx); err != nil {
			return err
		}
		select {
		case <-e.changes.over:
			e.changes.Give()
			return errSourcesOver
		default:
		}
		if !e.started.Load() || e.changes.life != nil {
			return nil
		}
		e.changes.Give() // Run was called meanwhile
	}
}

// described is what an option describes, which must be one source.
func (e *Engine) described(option func(*Options) error) (
	a *Added, build func(*Engine) (source.Source, error), err error,
) {
	if option == nil {
		return nil, nil, errors.New("the option is nil")
	}
	now := e.opts // a copy
	now.Sources, now.TeardownOptions = nil, nil
	for _, other := range e.changes.added {
		now.Clients = now.Clients.with(other.clients)
		now.Listens = slices.Concat(now.Listens, other.listens)
	}
	known := now.Clients
	now.Clients, now.Listens = Clients{SelfOwnership: known.SelfOwnership}, slices.Clip(now.Listens)
	heard := len(now.Listens)
	if err := option(&now); err != nil {
		return nil, nil, err
	}
	if len(now.Sources) != 1 {
		return nil, nil, errors.New("the option describes no source: give Owns, Watches or another of those that do, " +
			"and all else to New")
	}
	if e.opts.WithoutTeardown && len(now.TeardownOptions) > 0 {
		return nil, nil, fmt.Errorf("%s would do nothing with WithoutTeardown()",
			strings.Join(now.TeardownOptions, ", "))
	}
	all := known.with(now.Clients)
	if err := all.Check(e.client); err != nil {
		return nil, nil, err
	}
	a = &Added{engine: e, clients: now.Clients, listens: now.Listens[heard:], gone: make(chan struct{})}
	return a, now.Sources[0], nil
}

// startLate starts a source beside those that run.
func (e *Engine) startLate(a *Added) error {
	s := a.source
	if err := e.checkShared(s); err != nil {
		return err
	}
	if behind, ok := s.(*apisource.Source); ok {
		if err := e.APIs.Check(behind); err != nil {
			return err
		}
	}
	life := a.begin(e.changes.life)
	e.without.Store(s, false) // before anything can ask it what it shows
	if err := s.Start(life); err != nil {
		a.end()
		s.Stop()
		e.without.Delete(s)
		return fmt.Errorf("start source %s: %w", s, err)
	}
	if err := e.admit(s); err != nil {
		return err // it was checked
	}
	printable.Logger(klog.FromContext(life)).Info("A source was added", "source", s.String())
	if len(s.Synced()) == 0 { // it has nothing to list, and so has missed nothing
		e.without.Delete(s)
		return nil
	}
	e.missing.Add(1)
	a.missing.Go(func() {
		defer e.missing.Done()
		missing := source.Group{s}.StillMissing(life, life)
		if life.Err() == nil && len(missing) > 0 {
			e.without.Store(s, true)
			e.SourceHealth(life, s)
		}
		e.workWithout(life, s)
	})
	return nil
}

// begin is the context of the callbacks of a source that is started.
func (a *Added) begin(life context.Context) context.Context {
	life, a.end = context.WithCancel(life)
	return life
}

// lifeOf is the context of the callbacks of a source that Run starts.
func (e *Engine) lifeOf(s source.Source, life context.Context) context.Context {
	_ = e.changes.Take(context.Background())
	defer e.changes.Give()
	for _, a := range e.changes.added {
		if a.source == s {
			return a.begin(life)
		}
	}
	return life
}

// sourcesReady is told that the sources which Run has started have synced: others may come from now on.
func (e *Engine) sourcesReady(life context.Context) {
	_ = e.changes.Take(context.Background())
	defer e.changes.Give()
	e.changes.life = life
	close(e.changes.ready)
}

// sourcesOver is told that no more sources may come or go.
func (e *Engine) sourcesOver() {
	_ = e.changes.Take(context.Background())
	defer e.changes.Give()
	close(e.changes.over)
}
