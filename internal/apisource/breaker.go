package apisource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/retry"
	"k8s.io/klog/v2"
)

// breaker stands before the API of a source. While it is open only the polls of the source call the API, and the keys
// whose reconciles need the API wait, with their operations.
//
// A list that fails shows that the API is away. A list that succeeds after it shows that the API is back. A call of a
// key that fails shows less: it may be the fault of that key alone, whose spec names an endpoint that does not answer.
// It opens the breaker too, but when a list has succeeded after it one key tries first, and the others wait until it
// got its answer: as a half-open circuit breaker lets one call pass. A key that fails again though others got their
// answers, or few failed at all, is at fault itself, and fails like any other.
type breaker struct {
	source  *Source
	backoff retry.Backoff
	life    context.Context // of the source, for logs

	mu       sync.Mutex
	open     bool
	unlisted bool      // a list has failed since it opened
	since    time.Time // when it opened
	closedAt time.Time
	reason   error
	failures int // in a row; an API that fails again soon after it answered goes on being polled as rarely
	pause    time.Duration
	poll     time.Time
	suspects map[string]time.Time // keys whose calls failed, and when first, while lists may have succeeded
	answers  time.Time            // when a key was last known to have got its answer
	trying   map[string]struct{}  // the keys that try first; each poll adds one, for one may take long
}

// fewSuspects is the number of keys up to which suspects are at fault themselves, while lists succeed and no other key
// has got an answer. More than that do not fail by chance.
const fewSuspects = 2

func newBreaker(s *Source) *breaker {
	return &breaker{
		source: s, backoff: retry.NewBackoff(s.config.BackoffMin, s.config.BackoffMax), life: context.Background(),
		suspects: map[string]time.Time{}, trying: map[string]struct{}{},
	}
}

// refuses returns why no call is to be made for a key; nil if one may be made.
func (b *breaker) refuses(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.triesLocked(key) {
		return nil
	}
	return b.refusalLocked()
}

func (b *breaker) triesLocked(key string) bool {
	_, tries := b.trying[key]
	return tries
}

func (b *breaker) refusalLocked() error {
	return external.UnavailableOf(b.source.kind, &refusal{b.reason})
}

// cannotList returns the refusal while lists fail; nil if they do not.
func (b *breaker) cannotList() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || !b.unlisted {
		return nil
	}
	return b.refusalLocked()
}

// ownFault tells whether a call that failed is the fault of its key alone. If so, the keys that wait for this one to
// try first need not wait any more.
func (b *breaker) ownFault(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, suspect := b.suspects[key]
	if !suspect || b.open && !b.triesLocked(key) {
		return false
	}
	if b.answers.After(since) {
		return true
	}
	suspects := 0
	for _, since := range b.suspects {
		if since.After(b.answers) {
			suspects++
		}
	}
	return suspects <= fewSuspects
}

// report is told how the calls of a key ended, before its reconcile ends.
func (b *breaker) report(key string, err error) {
	b.mu.Lock()
	_, suspect := b.suspects[key]
	if err == nil {
		b.answers = time.Now()
		if !b.open {
			b.failures = 0
		}
	}
	b.mu.Unlock()
	if err == nil || isRefusal(err) {
		return
	}
	b.source.keys.change(key, func(state *keyState) { state.failing = time.Now() })
	if !suspect {
		b.trip(key, err)
	}
}

// trip opens the breaker, because a call of a key failed. An open breaker stays open.
func (b *breaker) trip(key string, err error) {
	if b.life.Err() != nil { // the source has stopped: nothing would close it
		return
	}
	b.mu.Lock()
	opened := !b.open
	if _, suspect := b.suspects[key]; !suspect {
		b.suspects[key] = time.Now()
	}
	if opened || b.triesLocked(key) {
		b.failedLocked(err)
		delete(b.trying, key)
	}
	b.mu.Unlock()
	b.source.schedule.poke()
	if opened {
		b.source.shared.Changed(b.life, b.source)
	}
}

// pollFailed opens the breaker, or says when the next poll is. The keys whose calls failed meanwhile are not at fault.
func (b *breaker) pollFailed(err error) {
	b.mu.Lock()
	b.failedLocked(err)
	b.unlisted = true
	clear(b.trying)
	clear(b.suspects)
	b.mu.Unlock()
	b.source.shared.Changed(b.life, b.source)
}

func (b *breaker) failedLocked(err error) {
	if unavailable, ok := errors.AsType[*external.UnavailableError](err); ok {
		err = unavailable.Err
	}
	if !b.open {
		if time.Since(b.closedAt) > 2*b.pause {
			b.failures = 0
		}
		b.open, b.since, b.reason = true, time.Now(), err
		b.source.shared.BreakerOpened()
	}
	if _, hung := errors.AsType[*hungError](b.reason); hung {
		b.reason = err // that call has returned, and this is what came of it
	}
	b.pauseLocked()
}

// pauseLocked says when the next poll is.
func (b *breaker) pauseLocked() {
	b.pause = b.backoff.Delay(b.failures)
	b.failures++
	b.poll = time.Now().Add(b.pause)
}

// nextPoll is when the API is to be asked whether it is back.
func (b *breaker) nextPoll() (at time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.poll, b.open
}

// listed is told of a list that succeeded. If keys wait because one of them failed, one of them tries first. If none
// waits yet, because the reconcile of the call that failed goes on, the breaker stays open.
func (b *breaker) listed() {
	b.mu.Lock()
	key, goesOn := "", false
	if b.open && !b.unlisted {
		key = b.firstLocked()
		goesOn = key == "" && b.source.isFailing()
		if goesOn || len(b.trying) > 0 {
			b.pauseLocked() // that reconcile, or a key that tries, has had the time since the last poll
		} else {
			b.poll = time.Now().Add(b.pause)
		}
		if key != "" {
			b.trying[key] = struct{}{}
		}
	}
	b.mu.Unlock()
	switch {
	case key != "":
		b.resume(key)
	case !goesOn:
		b.answered()
	}
}

// firstLocked chooses the key that tries first: one that has not failed, if there is one. It is "" if no key waits.
func (b *breaker) firstLocked() (first string) {
	for _, key := range b.source.waitingKeys() {
		first = key
		if _, suspect := b.suspects[key]; !suspect {
			break
		}
	}
	return first
}

// attempted is told of a key whose attempt has ended with another result than that the API is away.
func (b *breaker) attempted(key string, succeeded bool) {
	b.mu.Lock()
	first := b.open && b.triesLocked(key)
	if first && succeeded {
		b.answers = time.Now()
	}
	if succeeded {
		delete(b.suspects, key)
	}
	b.mu.Unlock()
	if first {
		b.answered()
		b.source.shared.Changed(b.life, b.source)
	}
}

// answered closes the breaker, and hands the waiting keys back. They come in the background, behind what users change
// now.
func (b *breaker) answered() {
	b.mu.Lock()
	was := b.open
	b.open, b.unlisted, b.reason = false, false, nil
	clear(b.trying)
	if was {
		b.closedAt = time.Now()
	}
	b.mu.Unlock()
	keys := b.source.waitingKeys()
	for _, key := range keys {
		b.resume(key)
	}
	if was {
		klog.FromContext(b.life).Info("API answers again", "source", b.source.String(), "keys", len(keys))
	}
}

// resume makes a key due that waits.
func (b *breaker) resume(key string) {
	if it, waited := b.source.takeWaiting(key); waited {
		b.source.shared.Host.Resume(it)
	}
}

// Wait implements Waiter: the key waits until the API is back. The breaker opens if it is not open and the key has met
// the failure itself. A call that was refused before the API came back says nothing: the key is then due at once.
func (b *breaker) Wait(it queue.Item, err error) {
	b.source.keys.change(it.Key, func(state *keyState) {
		if state.waiting != nil {
			it.Ops, it.Prio = operation.Union(state.waiting.Ops, it.Ops), max(state.waiting.Prio, it.Prio)
		}
		state.waiting = &it
	})
	if !isRefusal(err) {
		b.trip(it.Key, err)
	}
	if _, open := b.nextPoll(); !open || b.life.Err() != nil { // nothing polls once the source has stopped
		b.resume(it.Key)
	}
}

// err is why the API is away; nil if it is not.
func (b *breaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	return fmt.Errorf("the API of %s is away: %w", b.source.kind, b.reason)
}

// Awaits implements Waiter.
func (b *breaker) Awaits() (kind string, away bool) { return b.source.kind, true }
