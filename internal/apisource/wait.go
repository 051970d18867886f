package apisource

import (
	"errors"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// Waiter is what a key waits for without having failed.
type Waiter interface {
	// Wait lets the key wait, with the operations of this attempt. err is the attempt's.
	Wait(it queue.Item, err error)
	// Awaits says for the API of which kind the key waits, and whether that is away. If not, the key waits for a turn
	// under its rate limit.
	Awaits() (kind string, away bool)
}

// refusal is the reason of a call that was not made because the breaker is open. It says nothing new about the API.
type refusal struct{ reason error }

func (r *refusal) Error() string { return r.reason.Error() }
func (r *refusal) Unwrap() error { return r.reason }

func isRefusal(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	return refused
}

// WaiterFor returns what a key has to wait for after an error: its turn, or an API that is away. It is nil if the error
// is of another kind, or the key's own fault. Of several errors all must be of that kind: what failed elsewhere has to
// be tried again while the API is away.
func (s *Set) WaiterFor(key string, err error) Waiter {
	if err == nil || len(s.sources()) == 0 {
		return nil
	}
	var first Waiter
	var met []func() // opens the breaker of an API that this attempt has met away
	failed := false
	for _, err := range guard.Errors(err) {
		waiter := s.waiterForOne(key, err)
		if waiter == nil {
			failed = true
			continue
		}
		refused := isRefusal(err)
		if breaker, ok := waiter.(*breaker); ok && !refused {
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

// waiterForOne is WaiterFor of one error. An error that does not name its API is about the only API that there is, if
// there never was another.
func (s *Set) waiterForOne(key string, err error) Waiter {
	if turn, ok := errors.AsType[*turnError](err); ok {
		return turn
	}
	if !errors.Is(err, external.ErrUnavailable) {
		return nil
	}
	var found *Source
	if unavailable, ok := errors.AsType[*external.UnavailableError](err); ok && unavailable.Kind != "" {
		found = s.Source(unavailable.Kind)
	} else {
		found = s.only()
	}
	if found == nil || !isRefusal(err) && found.breaker.ownFault(key) {
		return nil
	}
	return found.breaker
}
