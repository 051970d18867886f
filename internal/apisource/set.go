package apisource

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
)

// Set is the API sources of a controller, and its intents. Sources may come and go while it is used.
type Set struct {
	shared  Config
	roster  atomic.Pointer[[]*Source]
	intents intents

	mu    sync.Mutex
	goes  []*Source           // taken out, and maybe in a call still
	kinds map[string]struct{} // of all that the set ever had
}

// sources are those that the set has now. They must not be modified.
func (s *Set) sources() []*Source {
	if now := s.roster.Load(); now != nil {
		return *now
	}
	return nil
}

// NewSet makes a set without sources.
func NewSet(config Config) *Set { return &Set{shared: config} }

// New makes a source of a client and its configuration, both from Check. The caller sets its handlers, and adds it to
// the set. role is in its name: "OwnsExternal".
func (s *Set) New(role string, client external.IExternalClient, config external.Config) *Source {
	return newSource(&s.shared, role, client, config)
}

// Check refuses a second source of one kind: errors and intents name the kind only.
func (s *Set) Check(added *Source) error {
	if s.Source(added.kind) != nil {
		return fmt.Errorf("%s: there is a client of this kind already; give each a kind of its own", added)
	}
	return nil
}

// Add adds a source, if Check lets it pass. It and Remove must not be called concurrently.
func (s *Set) Add(added *Source) error {
	if err := s.Check(added); err != nil {
		return err
	}
	now := append(slices.Clone(s.sources()), added)
	s.roster.Store(&now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]struct{}{}
	}
	s.kinds[added.kind] = struct{}{}
	return nil
}

// Remove takes a source out of the set, and makes due what waits for its API. It is stopped next, and then Left.
func (s *Set) Remove(gone *Source) {
	s.mu.Lock()
	s.goes = append(s.goes, gone)
	s.mu.Unlock()
	now := slices.DeleteFunc(slices.Clone(s.sources()), func(other *Source) bool { return other == gone })
	s.roster.Store(&now)
	for _, key := range gone.waitingKeys() {
		gone.breaker.resume(key)
	}
}

// Left is told that a source that was taken out has stopped.
func (s *Set) Left(gone *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goes = slices.DeleteFunc(s.goes, func(other *Source) bool { return other == gone })
}

// only is the source of the only API that there is and ever was; nil if there is none. What does not name its API may
// be about one that was taken away: a reconciler may go on calling it.
func (s *Set) only() *Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.sources(); len(all) == 1 && len(s.kinds) == 1 {
		return all[0]
	}
	return nil
}

// Source returns the source of a kind of resources; nil if there is none.
func (s *Set) Source(kind string) *Source {
	for _, found := range s.sources() {
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

// PlanGate is Gate for a plan.
func (s *Set) PlanGate(kind string) (g external.Gate, guarded bool) {
	found := s.Source(kind)
	if found == nil {
		return nil, false
	}
	return planGate{found}, true
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
	for _, each := range s.sources() {
		each.keys.amendAll(func(state *keyState) { state.awaited, state.turnedAway = nil, false })
		each.undeleted.clear()
	}
}

// Take adds the operations with which a key waits for APIs: an attempt that begins is for them too. The key waits no
// longer.
func (s *Set) Take(it queue.Item) queue.Item {
	for _, each := range s.sources() {
		if waited, ok := each.takeWaiting(it.Key); ok {
			it.Ops, it.Prio = operation.Union(waited.Ops, it.Ops), max(waited.Prio, it.Prio)
		}
	}
	return it
}

// Stale returns the sources whose lists are older than the teardown of a key; nil if there are none. The key is due
// again when they are not.
func (s *Set) Stale(key string) (stale []source.Owned) {
	for _, each := range s.sources() {
		if !each.caughtUp(key) {
			stale = append(stale, each)
		}
	}
	return stale
}

// CannotList returns why a key that waits for a list waits longer: an API is away, and the key has to wait for it. It
// is nil if all APIs can be listed.
func (s *Set) CannotList(key string) error {
	for _, each := range s.sources() {
		if err := each.breaker.cannotList(); err != nil {
			return fmt.Errorf("list what %s %q owns: %w", s.shared.Kind, key, err)
		}
	}
	return nil
}

// Attempted is told that an attempt, or a step of a teardown, has ended with another result than that an API is away. A
// key that has succeeded without an API does not wait for it.
func (s *Set) Attempted(key string, succeeded bool) {
	for _, each := range s.sources() {
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
	for _, each := range s.sources() {
		each.forgetTurn(key)
	}
}

// ForgetAwaited forgets which lists a key waits for, and which of its resources the API did not delete. It has a
// document again, and no teardown needs them.
func (s *Set) ForgetAwaited(key string) {
	for _, each := range s.sources() {
		each.forgetAwaited(key)
		each.forgetUndeleted(key)
	}
}

// Forget forgets everything about a key that is gone.
func (s *Set) Forget(key string) {
	for _, each := range s.sources() {
		each.keys.forget(key)
		each.forgetUndeleted(key)
		each.breaker.attempted(key, true)
	}
}

// Stats returns the state of the sources, by kind; nil if there are none.
func (s *Set) Stats() (stats map[string]Stats) {
	for _, each := range s.sources() {
		if stats == nil {
			stats = map[string]Stats{}
		}
		stats[each.kind] = each.Stats()
	}
	return stats
}
