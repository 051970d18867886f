package apisource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// turnPatience is how long a worker is held for the turn of a call. Where an API is called more often than its rate
// allows, all workers would soon be held, and primaries that need another API, or none, would wait too.
const turnPatience = time.Second

// turnError says that the turn of a call would have been long in coming. The key is due again when it may be near.
type turnError struct {
	source *Source
	after  time.Duration
}

func (t *turnError) Error() string {
	return fmt.Sprintf("the rate limit of %s leaves no turn for a call within %v", t.source.kind, turnPatience)
}

// Wait implements Waiter.
func (t *turnError) Wait(it queue.Item, _ error) { t.source.shared.Host.RetryAfter(it, t.after) }

// Awaits implements Waiter.
func (t *turnError) Awaits() (kind string, away bool) { return t.source.kind, false }

// turn waits for the turn of one call, however long, and returns the context of the call.
func (s *Source) turn(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.config.Rate > 0 {
		if err := s.limiter.Wait(ctx); err != nil {
			return nil, nil, fmt.Errorf("wait for the rate limit of %s: %w", s.kind, err)
		}
	}
	limited, cancel := s.bounded(ctx)
	return limited, cancel, nil
}

// turnSoon is turn for the first call of a reconcile: it waits for turnPatience at most, and fails with a turnError.
func (s *Source) turnSoon(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.config.Rate > 0 {
		reserved := s.limiter.Reserve()
		delay := reserved.Delay()
		if delay > turnPatience {
			reserved.Cancel()
			return nil, nil, &turnError{source: s, after: delay}
		}
		if !sleep(ctx, delay) {
			reserved.Cancel()
			return nil, nil, fmt.Errorf("wait for the rate limit of %s: %w", s.kind, context.Cause(ctx))
		}
	}
	limited, cancel := s.bounded(ctx)
	return limited, cancel, nil
}

// bounded is the context of one call. The function ends it, once the call has returned.
func (s *Source) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(s.withOwner(ctx), s.config.Timeout)
	returned := s.follow(limited, nameOf(ctx))
	return limited, func() {
		returned()
		cancel()
	}
}

// withOwner says in the context for which controller the client is called. Resources carry neither kind nor instance,
// so only the client can tell this controller's resources from others.
func (s *Source) withOwner(ctx context.Context) context.Context {
	return external.WithOwner(ctx, external.Owner{Kind: s.shared.Kind, Instance: s.shared.Host.InstanceID()})
}

// noteTurnedAway remembers a key that was turned away. It spreads such keys over the time that the rate needs for all
// of them, or they would come back together again and again.
func (s *Source) noteTurnedAway(key string, err error) {
	turn, ok := errors.AsType[*turnError](err)
	if !ok {
		return
	}
	s.keys.change(key, func(state *keyState) { state.turnedAway = true })
	all := time.Duration(float64(s.counts.turnedAway.Load()) / s.config.Rate * float64(time.Second))
	turn.after += rand.N(all + 1)
}

// Begun remembers which APIs one reconcile has called. The zero value is ready for use.
type Begun struct {
	mu    sync.Mutex
	kinds []string
}

func (b *Begun) has(kind string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.kinds, kind)
}

func (b *Begun) add(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.kinds, kind) {
		b.kinds = append(b.kinds, kind)
	}
}

// planGate is what the calls of a plan pass: the rate, and a timeout. What comes of them says nothing about a key.
type planGate struct{ source *Source }

var _ external.Gate = planGate{}

// Enter implements external.Gate.
func (g planGate) Enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return g.source.turn(ctx)
}

// Timeout implements external.Gate.
func (g planGate) Timeout() time.Duration { return g.source.config.Timeout }

// Report implements external.Gate.
func (g planGate) Report(error) {}

// gate is what the calls of one key pass. It implements external.Gate.
type gate struct {
	source *Source
	key    string
	begun  *Begun // of the reconcile; nil: no call belongs to another
}

var _ external.Gate = gate{}

// Enter implements external.Gate.
func (g gate) Enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	b := g.source.breaker
	if err := b.refuses(g.key); err != nil {
		return nil, nil, err
	}
	limited, cancel, err := g.turn(ctx)
	if err != nil {
		g.source.noteTurnedAway(g.key, err)
		return nil, nil, err
	}
	g.source.forgetTurn(g.key)
	if g.begun != nil {
		g.begun.add(g.source.kind)
	}
	if err := b.refuses(g.key); err != nil { // the breaker may have opened while this call waited for its turn
		cancel()
		return nil, nil, err
	}
	return limited, cancel, nil
}

// turn waits for the turn of one call. A reconcile that has called the API before waits as long as it takes, or under a
// low rate all reconciles would begin and none would end. Only one such reconcile at a time holds a worker.
func (g gate) turn(ctx context.Context) (context.Context, context.CancelFunc, error) {
	s := g.source
	if g.begun != nil && g.begun.has(s.kind) && s.secondCallTurn.TryLock() {
		defer s.secondCallTurn.Unlock()
		return s.turn(ctx)
	}
	return s.turnSoon(ctx)
}

// Timeout implements external.Gate.
func (g gate) Timeout() time.Duration { return g.source.config.Timeout }

// Report implements external.Gate. It opens the breaker before the reconcile ends, so that others need not fail first.
func (g gate) Report(err error) { g.source.breaker.report(g.key, err) }
