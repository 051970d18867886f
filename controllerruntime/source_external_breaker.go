package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/backoff"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/klog/v2"
	"sync"
	"time"
)

// apiBreaker stands before the API of an external client. While it is open nobody calls the API but the polls of the
// source, and the keys whose reconciles need it wait here, with their operations.
//
// A list that fails tells that the API is away, and one that succeeds after it that it is back. The call of a key that fails
// tells less: it may be the fault of that key alone, whose spec names an endpoint where nobody answers. It opens the breaker
// too, but when a list has succeeded after it one key tries first, and the others stay until it got its answer. A key
// that fails again though others got theirs, or few failed at all, is at fault itself, and fails like any other.
type apiBreaker struct {
	source  *externalSource
	backoff backoff.Backoff
	life    context.Context // of the source, for logs

	waiting keyed[queue.Item]

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
	trying   map[string]struct{}  // the keys that try first: one more after each poll, for one may take long, or never try
}

// fewSuspects is up to how many keys whose calls fail, while lists succeed and no other key has got an answer, are at fault
// themselves. More are not by chance.
const fewSuspects = 2

func newAPIBreaker(s *externalSource) *apiBreaker {
	return &apiBreaker{
		source: s, backoff: backoff.New(s.config.BackoffMin, s.config.BackoffMax), life: context.Background(),
		suspects: map[string]time.Time{}, trying: map[string]struct{}{},
	}
}

// keyGate is the breaker for the calls of one key. It implements external.Gate.
type keyGate struct {
	breaker *apiBreaker
	key     string
	began   *keyed[struct{}] // kinds of which a call of this reconcile was let through; nil: each call is for itself
}

var _ external.Gate = keyGate{}

// Enter implements external.Gate.
func (g keyGate) Enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := g.breaker.refuses(g.key); err != nil {
		return nil, nil, err
	}
	limited, cancel, err := g.turn(ctx)
	if err != nil {
		g.breaker.source.noteTurnedAway(g.key, err)
		return nil, nil, err
	}
	g.breaker.source.turnedAway.forget(g.key)
	if g.began != nil {
		g.began.put(g.breaker.source.resources, struct{}{})
	}
	if err := g.breaker.refuses(g.key); err != nil { // it may have opened while this call waited for its turn
		cancel()
		return nil, nil, err
	}
	return limited, cancel, nil
}

// turn waits for the turn of one call. What is begun goes on, or under a low rate all would begin and none would end; but it holds
// one worker only.
func (g keyGate) turn(ctx context.Context) (context.Context, context.CancelFunc, error) {
	s := g.breaker.source
	if g.began != nil {
		if _, began := g.began.get(s.resources); began && s.goesOn.TryLock() {
			defer s.goesOn.Unlock()
			return s.turn(ctx)
		}
	}
	return s.turnSoon(ctx)
}

// Timeout implements external.Gate.
func (g keyGate) Timeout() time.Duration { return g.breaker.source.config.Timeout }

// Report implements external.Gate. That a call has failed is told early: others need not fail first.
func (g keyGate) Report(err error) {
	b := g.breaker
	b.mu.Lock()
	_, suspect := b.suspects[g.key]
	if err == nil {
		b.answers = time.Now()
		if !b.open {
			b.failures = 0
		}
	}
	b.mu.Unlock()
	if err != nil && !suspect && !isRefusal(err) {
		b.trip(g.key, err)
	}
}

// refusal is the reason of a call that was not made because the breaker is open. It says nothing new about the API.
type refusal struct{ reason error }

func (r *refusal) Error() string { return r.reason.Error() }
func (r *refusal) Unwrap() error { return r.reason }

func isRefusal(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	return refused
}

// refuses returns why no call is to be made for a key.
func (b *apiBreaker) refuses(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.triesLocked(key) {
		return nil
	}
	return b.refusalLocked()
}

func (b *apiBreaker) triesLocked(key string) bool {
	_, tries := b.trying[key]
	return tries
}

func (b *apiBreaker) refusalLocked() error {
	return external.UnavailableOf(b.source.resources, &refusal{b.reason})
}

// cannotList returns the refusal while lists fail; nil if they do not.
func (b *apiBreaker) cannotList() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || !b.unlisted {
		return nil
	}
	return b.refusalLocked()
}

// ownFault tells whether a call that failed is the fault of its key alone. If so, whoever waits for this key to try first
// need not wait any more.
func (b *apiBreaker) ownFault(key string) bool {
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

// trip opens the breaker, because a call of a key failed. One that is open stays so.
func (b *apiBreaker) trip(key string, err error) {
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
	b.source.lists.poke()
	if opened {
		b.source.engine.sourceHealth(b.life, b.source)
	}
}

// pollFailed opens the breaker, or says when the next poll is. Whose call failed meanwhile is not at fault.
func (b *apiBreaker) pollFailed(err error) {
	b.mu.Lock()
	b.failedLocked(err)
	b.unlisted = true
	clear(b.trying)
	clear(b.suspects)
	b.mu.Unlock()
	b.source.engine.sourceHealth(b.life, b.source)
}

func (b *apiBreaker) failedLocked(err error) {
	if unavailable, ok := errors.AsType[*external.UnavailableError](err); ok {
		err = unavailable.Err
	}
	if !b.open {
		if time.Since(b.closedAt) > 2*b.pause {
			b.failures = 0
		}
		b.open, b.since, b.reason = true, time.Now(), err
		b.source.engine.stats.breakerOpened.Add(1)
	}
	b.pauseLocked()
}

// pauseLocked says when the next poll is.
func (b *apiBreaker) pauseLocked() {
	b.pause = b.backoff.Delay(b.failures)
	b.failures++
	b.poll = time.Now().Add(b.pause)
}

// nextPoll is when the API is to be asked whether it is back.
func (b *apiBreaker) nextPoll() (at time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.poll, b.open
}

// listed is told of a list that succeeded. If keys wait because one of them failed, one of them tries first.
func (b *apiBreaker) listed() {
	b.mu.Lock()
	key := ""
	if b.open && !b.unlisted {
		if len(b.trying) > 0 {
			b.pauseLocked() // one is at it since the last poll: none of the pauses is too long
		} else {
			b.poll = time.Now().Add(b.pause)
		}
		if key = b.firstLocked(); key != "" {
			b.trying[key] = struct{}{}
		}
	}
	b.mu.Unlock()
	if key == "" {
		b.answered()
		return
	}
	if it, ok := b.waiting.take(key); ok {
		b.source.engine.resume(it)
	}
}

// firstLocked chooses who tries first: one that has not failed, if there is one. "" if nobody waits.
func (b *apiBreaker) firstLocked() (first string) {
	for _, key := range b.waiting.all() {
		first = key
		if _, suspect := b.suspects[key]; !suspect {
			break
		}
	}
	return first
}

// attempted is told of a key whose attempt has ended otherwise than because the API is away.
func (b *apiBreaker) attempted(key string, succeeded bool) {
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
		b.source.engine.sourceHealth(b.life, b.source)
	}
}

// answered closes the breaker, and hands the waiting keys back. They come in the background, behind what users change now.
func (b *apiBreaker) answered() {
	b.mu.Lock()
	was := b.open
	b.open, b.unlisted, b.reason = false, false, nil
	clear(b.trying)
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

// wait lets a key wait until the API is back. The breaker opens if it is not open and the key has met what it is for. A
// call that was refused before the API came back says nothing: the key is then due at once.
func (b *apiBreaker) wait(it queue.Item, err error) {
	b.waiting.change(it.Key, func(before queue.Item, waits bool) queue.Item {
		if waits {
			it.Ops = operation.Union(before.Ops, it.Ops)
		}
		return it
	})
	if !isRefusal(err) {
		b.trip(it.Key, err)
		return
	}
	if _, open := b.nextPoll(); !open {
		if it, ok := b.waiting.take(it.Key); ok {
			b.source.engine.resume(it)
		}
	}
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

// message is what a waiting key's condition says. It is always the same, or each time that the breaker opens all would be
// written anew, with what another key has met; why the API is away is in Stats and in the log.
func (b *apiBreaker) message() string {
	return waitsFor + "the API of " + b.source.resources + ", which is away"
}

func (b *apiBreaker) snapshot() ExternalStats {
	s := ExternalStats{Resources: b.source.cache.len(), Waiting: b.waiting.len(), TurnedAway: b.source.turnedAway.len()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		s.Away, s.Since, s.Reason = true, b.since, b.reason.Error()
	}
	return s
}
