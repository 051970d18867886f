package controllerruntime

import (
	"errors"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"reflect"
)

// waitsForAPI is what a key waits for without having failed.
type waitsForAPI interface {
	// wait lets the key wait, with the operations of this attempt.
	wait(it queue.Item, err error)
	// message is what its condition says.
	message() string
}

// waiterFor finds what a key has to wait for after this error: its turn, or, in a breaker, an API that is away. nil if it is
// none of that kind, or the key's own fault. Of several errors all must be of that kind: what failed elsewhere has to be tried
// again while the API is away.
func (e *engine) waiterFor(key string, err error) waitsForAPI {
	if err == nil || len(e.externals) == 0 || isTerminal(err) {
		return nil
	}
	var first waitsForAPI
	var met []func() // opens the breaker of an API that this attempt has met away
	failed := false
	for _, err := range severalErrors(err) {
		waiter := e.waiterForOne(key, err)
		if waiter == nil {
			failed = true
			continue
		}
		refused := isRefusal(err)
		if breaker, ok := waiter.(*apiBreaker); ok && !refused {
			met = append(met, func() { breaker.trip(key, err) })
		}
		if first == nil || refused {
			first = waiter
		}
	}
	if !failed {
		return first
	}
	for _, open := range met {
		open()
	}
	return nil
}

// waiterForOne is waiterFor of one error. One that does not tell which API it means is about the only one there is.
func (e *engine) waiterForOne(key string, err error) waitsForAPI {
	if turn, ok := errors.AsType[*turnError](err); ok {
		return turn
	}
	if !errors.Is(err, external.ErrUnavailable) {
		return nil
	}
	var found *externalSource
	if unavailable, ok := errors.AsType[*external.UnavailableError](err); ok && unavailable.Kind != "" {
		found = e.external(unavailable.Kind)
	} else if len(e.externals) == 1 {
		found = e.externals[0]
	}
	if found == nil || !isRefusal(err) && found.breaker.ownFault(key) {
		return nil
	}
	return found.breaker
}

// severalErrors returns the errors of which err was made with errors.Join or an aggregate; one that wraps several others
// otherwise, as fmt.Errorf does with each %w, is a single one of several kinds.
func severalErrors(err error) []error {
	var parts []error
	for inner := err; inner != nil && parts == nil; inner = errors.Unwrap(inner) {
		if aggregate, ok := inner.(utilerrors.Aggregate); ok {
			parts = aggregate.Errors()
		} else if reflect.TypeOf(inner) == reflect.TypeOf(errors.Join(err)) {
			parts = inner.(interface{ Unwrap() []error }).Unwrap()
		}
	}
	if parts == nil {
		return []error{err}
	}
	var all []error
	for _, part := range parts {
		all = append(all, severalErrors(part)...)
	}
	return all
}

// takeWaiting adds the operations with which a key waits for APIs: this attempt is for them too.
func (e *engine) takeWaiting(it queue.Item) queue.Item {
	for _, s := range e.externals {
		if waited, ok := s.breaker.waiting.take(it.Key); ok {
			it.Ops = operation.Union(waited.Ops, it.Ops)
		}
	}
	return it
}

// attempted tells the breakers that an attempt, or a step of a teardown, has ended otherwise than because an API is away.
func (e *engine) attempted(key string, succeeded bool) {
	for _, s := range e.externals {
		s.turnedAway.forget(key)
		s.breaker.attempted(key, succeeded)
	}
}

// resume makes a key due that has waited for an API. While another replica works, one that is gone is forgotten: the record
// says whether its teardown is owed, and that is asked when this one's turn comes.
func (e *engine) resume(it queue.Item) {
	e.standby.mu.RLock()
	defer e.standby.mu.RUnlock()
	if e.standby.on && !e.primary.Exists(it.Key) {
		return
	}
	e.queue.AddAfter(it.Key, operation.Union(it.Ops, operation.Of(OperationRetry)), queue.Background, 0, queue.RetryDelay)
}

// resumed is for a key that was reconciled without the API it waited for, or is gone.
func (e *engine) resumed(key string) {
	for _, s := range e.externals {
		s.breaker.waiting.forget(key)
	}
	e.attempted(key, true)
}
