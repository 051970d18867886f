package engine

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/source"
)

func (e *Engine) addSources() error {
	if err := e.divide(e.primary); err != nil {
		return err
	}
	e.sources.Add(e.primary)
	for _, build := range e.opts.Sources {
		s, err := build(e)
		if err == nil {
			err = e.checkShared(s)
		}
		if err == nil {
			err = e.divide(s)
		}
		if err == nil {
			err = e.admit(s)
		}
		if err != nil {
			e.undivide()
			return err
		}
	}
	return nil
}

// admit adds a source to those of the engine.
func (e *Engine) admit(s source.Source) error {
	if behind, ok := s.(*apisource.Source); ok {
		if err := e.APIs.Add(behind); err != nil {
			return err
		}
	}
	e.sources.Add(s)
	e.findPruned()
	return nil
}

// Sources are all sources, the primary's first.
func (e *Engine) Sources() []source.Source { return e.sources.Group() }

// Division is what the caches of primaries, and of what they own in NATS, are to have; nil: all.
func (e *Engine) Division() *entity.Division {
	if e.parts == nil {
		return nil
	}
	return &entity.Division{Parts: e.parts}
}

// Kinds are the kinds of the entities in NATS that are sources, the primary's first.
func (e *Engine) Kinds() (kinds []string) {
	for _, s := range e.sources.Group() {
		if s, ok := s.(source.Kinded); ok {
			kinds = append(kinds, s.Kind())
		}
	}
	return kinds
}

// owned are the sources in which primaries own something.
func (e *Engine) owned() []source.Owned { return source.OwnedOf(e.sources.Group()[1:]) }
