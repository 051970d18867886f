package controller

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// WithFairness lets groups of keys take turns, so that many keys of one group do not delay a single one of another:
//
//	controller.WithFairness(controller.ByNamespace)
//
// Among the keys of one priority that wait for a worker, the next is of the group whose turn it is, and its group then
// goes behind the others. So with n groups each is handed out every nth of them, however many keys it has; within a
// group the first to come is the first to go. Priorities come before that, and for the one hand-out in eight that goes
// to the oldest key whatever its priority, groups take turns as well: a key waits for at most eight hand-outs for each
// group, and for the older keys of its own. Groups share hand-outs, not workers: reconciles that take long hold their
// workers until they return.
//
// group names the group of a key. It is called concurrently, each time something makes a key due, so it must be quick,
// and always say the same of a key. If it panics, the key is of the group "". Groups without keys cost no memory.
// Without the option all keys are of one group.
func WithFairness(group func(key string) string) Option {
	return func(o *engine.Options) error {
		if group == nil {
			return errors.New("WithFairness(nil): a function is needed, such as ByNamespace")
		}
		o.Group = group
		return nil
	}
}

// ByNamespace returns the namespace of a key, for WithFairness; "" for a key without one.
func ByNamespace(key string) string {
	namespace, _, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return ""
	}
	return namespace
}

// longestBurst bounds how long a burst takes to be saved up. What is slower is a mistake.
const longestBurst = 365 * 24 * time.Hour

// WithRate bounds how many reconciles a controller begins a second, over all its keys, and retries, requeues and
// teardowns with them; after a time without any, so many as burst begin at once. A key pays as a worker takes it, so
// where records are slow to be written a few more reconciles, at most one for each worker, begin together. Keys wait in
// the order of their priorities, so a live change takes the next turn. What a worker does with a key beside its
// reconcile costs nothing.
// The default is no bound. perSecond must be positive, and burst at least 1. See WithRateLimiter for a bound on
// retries alone.
func WithRate(perSecond float64, burst int) Option {
	return func(o *engine.Options) error {
		if !(perSecond > 0) || math.IsInf(perSecond, 1) || burst < 1 {
			return fmt.Errorf("WithRate(%v, %d): want a rate above 0, and a burst of at least 1", perSecond, burst)
		}
		every := math.Ceil(float64(time.Second) / perSecond)
		if every*float64(burst) > float64(longestBurst) {
			return fmt.Errorf("WithRate(%v, %d): so slow that %d reconciles take longer than a year", perSecond, burst,
				burst)
		}
		o.Rate = queue.Rate{Every: time.Duration(every), Burst: burst}
		return nil
	}
}

// WithRateLimiter lets a limiter say when a key that failed is due again, instead of the delays of [WithBackoff]. Any
// limiter of client-go's workqueue, and so of controller-runtime, is one, with string as its type:
//
//	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
//	controller.WithRateLimiter(limiter)
//
// When is called with the key after each attempt that failed, unless [RetryAfter] or WithErrorPolicy says when. A delay
// below a millisecond is a millisecond. Forget is called once the key has succeeded or is gone, and before the When of
// a first failure, as after a new revision. NumRequeues is not called. The methods are called concurrently for
// different keys, and must return quickly; if one panics, the backoff holds. How long a key is parked after a terminal
// error, and when the write of a record is tried again, WithBackoff says.
func WithRateLimiter(limiter workqueue.TypedRateLimiter[string]) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(limiter) {
			return errors.New("WithRateLimiter(nil): a limiter is needed; leave the option away instead")
		}
		o.RateLimiter = limiter
		return nil
	}
}
