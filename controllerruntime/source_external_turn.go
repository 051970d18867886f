package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"math/rand/v2"
	"time"
)

// turnPatience is how long a worker is held for the turn of a call. Where the API is called more than its rate allows that would
// soon be all of them, and primaries that need no API, or another one, would wait too.
const turnPatience = time.Second

// turnError says that the turn of a call would have been long in coming. The key is due again when it may be near.
type turnError struct {
	source *externalSource
	after  time.Duration
}

func (t *turnError) Error() string {
	return fmt.Sprintf("the rate limit of %s leaves no turn for a call within %v", t.source.resources, turnPatience)
}

// wait implements waitsForAPI.
func (t *turnError) wait(it queue.Item, _ error) {
	t.source.engine.queue.AddAfter(it.Key, operation.Union(it.Ops, operation.Of(OperationRetry)), queue.Background, t.after, queue.RetryDelay)
}

// message implements waitsForAPI.
func (t *turnError) message() string {
	return waitsFor + "a turn at the API of " + t.source.resources + ", whose rate is limited"
}

// turnSoon is turn for a call that nothing was done for yet: it does not wait for long.
func (s *externalSource) turnSoon(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.config.Rate > 0 {
		reserved := s.limiter.Reserve()
		delay := reserved.Delay()
		if delay > turnPatience {
			reserved.Cancel()
			return nil, nil, &turnError{source: s, after: delay}
		}
		if !sleep(ctx, delay) {
			reserved.Cancel()
			return nil, nil, fmt.Errorf("wait for the rate limit of %s: %w", s.resources, context.Cause(ctx))
		}
	}
	return s.bounded(ctx)
}

// forgetTurn forgets that a key was turned away: it rests, and needs no turn.
func (e *engine) forgetTurn(key string) {
	for _, s := range e.externals {
		s.turnedAway.forget(key)
	}
}

// noteTurnedAway spreads the keys that were turned away over the time that the rate needs for all of them, or they would come
// back together again and again.
func (s *externalSource) noteTurnedAway(key string, err error) {
	turn, ok := errors.AsType[*turnError](err)
	if !ok {
		return
	}
	s.turnedAway.put(key, struct{}{})
	all := time.Duration(float64(s.turnedAway.len()) / s.config.Rate * float64(time.Second))
	turn.after += rand.N(all + 1)
}
