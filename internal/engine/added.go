package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/klog/v2"
)

// Added is a source that was added apart from those of New.
type Added struct {
	engine  *Engine
	source  source.Source
	clients Clients
	listens []string
	end     context.CancelFunc // of its callbacks; nil while it is not started
	missing sync.WaitGroup     // what waits for its sync
	gone    chan struct{}      // closed when nothing of it is left
	removed bool
}

// String is the name of the source in logs, errors and Stats.
func (a *Added) String() string { return a.source.String() }

// WaitSynced waits until the source has synced.
func (a *Added) WaitSynced(ctx context.Context) error {
	if err := a.await(ctx, a.engine.changes.ready); err != nil {
		return err
	}
	for _, synced := range a.source.Synced() {
		if err := a.await(ctx, synced.Done()); err != nil {
			return err
		}
	}
	return nil
}

func (a *Added) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-a.gone:
		return fmt.Errorf("source %s was removed", a)
	default:
	}
	select {
	case <-done:
		return nil
	case <-a.gone:
		return fmt.Errorf("source %s was removed", a)
	case <-a.engine.changes.over:
		return fmt.Errorf("source %s: %w", a, errSourcesOver)
	case <-ctx.Done():
		return fmt.Errorf("source %s has not synced: %w", a, cmp.Or(a.source.Err(), context.Cause(ctx)))
	}
}

// Remove takes the source away, and waits until nothing of it is left. If ctx ends before, that goes on.
func (a *Added) Remove(ctx context.Context) error {
	e := a.engine
	ends := a.gone
	if err := e.takeChange(ctx); errors.Is(err, errSourcesOver) {
		ends = e.changes.down // with the others
	} else if err != nil {
		return fmt.Errorf("controller %q: remove source %s: %w", e.name, a, err)
	} else {
		if !a.removed {
			a.removed = true
			e.take(a)
		}
		e.changes.Give()
	}
	select {
	case <-ends:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("controller %q: source %s is being removed, and %s has not returned: %w",
			e.name, a, cmp.Or(a.hung(), "a callback of it"), context.Cause(ctx))
	}
}

// hung names the calls of its API that ignore their contexts; "" if there are none.
func (a *Added) hung() string {
	if behind, ok := a.source.(*apisource.Source); ok {
		return behind.Hung()
	}
	return ""
}

// take takes a source out of all that asks it.
func (e *Engine) take(a *Added) {
	s, started := a.source, a.end != nil
	if started {
		a.end()
	}
	e.sources.Remove(s)
	e.findPruned()
	if behind, ok := s.(*apisource.Source); ok {
		e.APIs.Remove(behind)
	}
	e.missing.Add(1)
	go func() {
		defer e.missing.Done()
		if started {
			s.Stop()
			a.missing.Wait()
			e.leave(s)
		}
		if behind, ok := s.(*apisource.Source); ok {
			e.APIs.Left(behind)
		}
		_ = e.changes.Take(context.Background())
		e.changes.added = slices.DeleteFunc(e.changes.added, func(other *Added) bool { return other == a })
		e.changes.Give()
		close(a.gone)
	}()
}

// leave forgets a source that has stopped.
func (e *Engine) leave(s source.Source) {
	ctx := e.changes.life
	e.mappings.Forget(s)
	e.without.Delete(s)
	for _, name := range []string{s.String(), settingsOf(s), callsOf(s)} {
		e.health.Forget(ctx, name)
	}
	if e.claim != nil {
		e.claim.LateGone(ctx, s.String())
	}
	if inNATS, ok := s.(interface{ Config() entity.Config }); ok {
		if bucket := inNATS.Config().Bucket; !e.bucketsWritten().Has(bucket) {
			e.health.Forget(ctx, writesTo(bucket))
		}
	}
	printable.Logger(klog.FromContext(ctx)).Info("A source was removed", "source", s.String())
	if owned, ok := s.(source.Owned); ok && e.teardown != nil {
		e.teardown.ForgetOrphansIn(owned)
	}
	e.sweeper.SweepSoon()
	e.resumeOwed() // teardowns that waited for it
}
