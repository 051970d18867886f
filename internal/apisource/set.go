package apisource

import (
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
)

// Set is the API sources of a controller, and its intents.
type Set struct {
	shared  Config
	sources []*Source
	intents intents
}

// NewSet makes a set without sources.
func NewSet(config Config) *Set { return &Set{shared: config} }

// New makes a source of a client and its configuration, both from Check. The caller sets its handlers, and adds it to
// the set. role is in its name: "OwnsExternal".
func (s *Set) New(role string, client external.IExternalClient, config external.Config) *Source {
	return newSource(&s.shared, role, client, config)
}

// Add adds a source, before any of them starts. It refuses a second source of one kind: errors and intents name the
// kind only.
func (s *Set) Add(added *Source) error {
	if s.Source(added.kind) != nil {
		return fmt.Errorf("%s: there is a client of this kind already; give each a kind of its own", added)
	}
	s.sources = append(s.sources, added)
	return nil
}

// Source returns the source of a kind of resources; nil if there is none.
func (s *Set) Source(kind string) *Source {
	for _, found := range s.sources {
		if found.kind == kind {
			return found
		}
	}
	return nil
}

// Gate returns what stands before the API of a kind for a reconcile of this key, and whether there is a source of that
// kind.
func (s *Set) Gate(kind, key string, begun *Begun) (g external.Gate, guarded bool) {
	found := s.Source(kind)
	if found == nil {
		return nil, false
	}
	return gate{source: found, key: key, begun: begun}, true
}

// Store returns what remembers the intents of a key. saving is held while it writes: several resources that are
// reconciled side by side share it.
func (s *Set) Store(key string, saving turn.Turn) external.Store {
	return store{set: s, key: key, saving: saving}
}

// BeginTerm is told that this replica works from now on, and no other one writes intents.
func (s *Set) BeginTerm() { s.intents.since = time.Now() }

// EndTerm forgets which lists keys wait for, and which keys were turned away. That is for the next term, maybe of
// another replica: a list of this term says nothing about what that replica does.
func (s *Set) EndTerm() {
	for _, each := range s.sources {
		each.keys.amendAll(func(state *keyState) { state.awaited, state.turnedAway = nil, false })
		each.undeleted.clear()
	}
}

// Take adds the operations with which a key waits for APIs: an attempt that begins is for them too. The key waits no
// longer.
func (s *Set) Take(it queue.Item) queue.Item {
	for _, each := range s.sources {
		if waited, ok := each.takeWaiting(it.Key); ok {
			it.Ops, it.Prio = operation.Union(waited.Ops, it.Ops), max(waited.Prio, it.Prio)
		}
	}
	return it
}

// Stale returns the sources whose lists are older than the teardown of a key; nil if there are none. The key is due
// again when they are not.
func (s *Set) Stale(key string) (stale []source.Owned) {
	for _, each := range s.sources {
		if !each.caughtUp(key) {
			stale = append(stale, each)
		}
	}
	return stale
}

// CannotList returns why a key that waits for a list waits longer: an API is away, and the key has to wait for it. It
// is nil if all APIs can be listed.
func (s *Set) CannotList(key string) error {
	for _, each := range s.sources {
		if err := each.breaker.cannotList(); err != nil {
			return fmt.Errorf("list what %s %q owns: %w", s.shared.Kind, key, err)
		}
	}
	return nil
}

// Attempted is told that an attempt, or a step of a teardown, has ended with another result than that an API is away. A
// key that has succeeded without an API does not wait for it.
func (s *Set) Attempted(key string, succeeded bool) {
	for _, each := range s.sources {
		each.keys.amend(key, func(state *keyState) {
			state.turnedAway, state.failing = false, time.Time{}
			if succeeded {
				state.waiting = nil
			}
		})
		each.breaker.attempted(key, succeeded)
	}
}

// ForgetTurn forgets that a key was turned away: it is not reconciled, and needs no turn.
func (s *Set) ForgetTurn(key string) {
	for _, each := range s.sources {
		each.forgetTurn(key)
	}
}

// ForgetAwaited forgets which lists a key waits for, and which of its resources the API did not delete. It has a
// document again, and no teardown needs them.
func (s *Set) ForgetAwaited(key string) {
	for _, each := range s.sources {
		each.forgetAwaited(key)
		each.forgetUndeleted(key)
	}
}

// Forget forgets everything about a key that is gone.
func (s *Set) Forget(key string) {
	for _, each := range s.sources {
		each.keys.forget(key)
		each.forgetUndeleted(key)
		each.breaker.attempted(key, true)
	}
}

// Stats returns the state of the sources, by kind; nil if there are none.
func (s *Set) Stats() (stats map[string]Stats) {
	for _, each := range s.sources {
		if stats == nil {
			stats = map[string]Stats{}
		}
		stats[each.kind] = each.Stats()
	}
	return stats
}
