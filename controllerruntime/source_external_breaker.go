package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"k8s.io/klog/v2"
)

// apiBreaker stands before the API of an external client. While it is open nobody calls the API but the polls of the
// source, and the keys whose reconciles need it wait here, with their operations. It implements external.Gate.
type apiBreaker struct {
	source  *externalSource
	backoff *backoff
	life    context.Context // of the source, for logs

	waiting keyed[item]

	mu       sync.Mutex
	open     bool
	since    time.Time // when it opened
	closedAt time.Time
	reason   error
	failures int // in a row; an API that fails again soon after it answered goes on being polled as rarely
	pause    time.Duration
	poll     time.Time
}

func newAPIBreaker(s *externalSource) *apiBreaker {
	return &apiBreaker{source: s, backoff: newBackoff(s.config.BackoffMin, s.config.BackoffMax), life: context.Background()}
}

// Enter implements external.Gate.
func (b *apiBreaker) Enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := b.refuses(); err != nil {
		return nil, nil, err
	}
	limited, cancel, err := b.source.turn(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := b.refuses(); err != nil { // it may have opened while this call waited for its turn
		cancel()
		return nil, nil, err
	}
	return limited, cancel, nil
}

// refuses returns why no call is to be made.
func (b *apiBreaker) refuses() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	return external.UnavailableOf(b.source.resources, b.reason)
}

// Report implements external.Gate.
func (b *apiBreaker) Report(err error) {
	if err != nil {
		b.trip(err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		b.failures = 0
	}
}

// trip opens the breaker. One that is open stays as it is.
func (b *apiBreaker) trip(err error) {
	b.mu.Lock()
	opened := !b.open
	if opened {
		b.failedLocked(err)
	}
	b.mu.Unlock()
	if opened {
		b.source.lists.poke()
		b.source.engine.sourceHealth(b.life, b.source)
	}
}

// pollFailed opens the breaker, or says when the next poll is.
func (b *apiBreaker) pollFailed(err error) {
	b.mu.Lock()
	b.failedLocked(err)
	b.mu.Unlock()
	b.source.engine.sourceHealth(b.life, b.source)
}

func (b *apiBreaker) failedLocked(err error) {
	if unavailable, ok := errors.AsType[*external.UnavailableError](err); ok {
		err = unavailable.Err
	}
	now := time.Now()
	if !b.open {
		if now.Sub(b.closedAt) > 2*b.pause {
			b.failures = 0
		}
		b.open, b.since, b.reason = true, now, err
		b.source.engine.stats.breakerOpened.Add(1)
	}
	b.pause = b.backoff.delay(b.failures)
	b.failures++
	b.poll = now.Add(b.pause)
}

// nextPoll is when the API is to be asked whether it is back.
func (b *apiBreaker) nextPoll() (at time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.poll, b.open
}

// answered closes the breaker, and hands the waiting keys back. They come in the background, behind what users change now.
func (b *apiBreaker) answered() {
	b.mu.Lock()
	was := b.open
	b.open, b.reason = false, nil
	if was {
		b.closedAt = time.Now()
	}
	b.mu.Unlock()
	keys := b.waiting.all()
	if was {
		klog.FromContext(b.life).Info("API answers again", "source", b.source.String(), "keys", len(keys))
	}
	for _, key := range keys {
		if it, ok := b.waiting.take(key); ok {
			b.source.engine.resume(it)
		}
	}
}

// wait lets a key wait until the API is back. The breaker opens if it is not open: the key has met what it is for.
func (b *apiBreaker) wait(it item, err error) {
	b.waiting.change(it.key, func(before item, waits bool) item {
		if waits {
			it.ops = union(before.ops, it.ops)
		}
		return it
	})
	b.trip(err)
}

// err is why the API is away; nil if it is not.
func (b *apiBreaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	return fmt.Errorf("the API of %s is away: %w", b.source.resources, b.reason)
}

// waitsFor begins the messages of conditions that tell what a key waits for.
const waitsFor = "waits for "

// message is what a waiting key's condition says. It is the same as long as the breaker is open, or each event would write it.
func (b *apiBreaker) message() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	message := waitsFor + "the API of " + b.source.resources + ", which is away"
	if b.reason != nil {
		message += ": " + b.reason.Error()
	}
	return message
}

func (b *apiBreaker) snapshot() ExternalStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := ExternalStats{Resources: b.source.cache.len(), Waiting: b.waiting.len(), Away: b.open}
	if b.open {
		s.Since, s.Reason = b.since, b.reason.Error()
	}
	return s
}

// breakerFor finds the breaker in which a key has to wait after this error; nil if it is none of that kind. An error that
// does not tell which API it means is about the only one there is.
func (e *engine) breakerFor(err error) *apiBreaker {
	if len(e.externals) == 0 || isTerminal(err) || !errors.Is(err, external.ErrUnavailable) {
		return nil
	}
	if unavailable, ok := errors.AsType[*external.UnavailableError](err); ok && unavailable.Kind != "" {
		if s := e.external(unavailable.Kind); s != nil {
			return s.breaker
		}
		return nil
	}
	if len(e.externals) == 1 {
		return e.externals[0].breaker
	}
	return nil
}

// resume makes a key due that has waited for an API. While another replica works, one that is gone is forgotten: the record
// says whether its teardown is owed, and that is asked when this one's turn comes.
func (e *engine) resume(it item) {
	e.standby.mu.RLock()
	defer e.standby.mu.RUnlock()
	if e.standby.on && !e.primary.exists(it.key) {
		return
	}
	e.queue.addAfter(it.key, union(it.ops, operations(OperationRetry)), prioBackground, 0, timerRetry)
}

// resumed is for a key that was reconciled without the API it waited for, or is gone.
func (e *engine) resumed(key string) {
	for _, s := range e.externals {
		s.breaker.waiting.forget(key)
	}
}
