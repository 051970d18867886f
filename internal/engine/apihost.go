package engine

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// newAPIs makes the set of the sources behind APIs.
func (e *Engine) newAPIs() *apisource.Set {
	config := apisource.Config{
		Host: apiHost{e}, Kind: e.Kind, Bucket: e.statusBucket,
		Changed:       e.SourceHealth,
		Malformed:     func() { e.stats.Malformed.Add(1) },
		BreakerOpened: func() { e.stats.BreakerOpened.Add(1) },
	}
	if e.records != nil {
		config.Records = e.records
		config.MayExist = func(name string) bool {
			if e.filtered {
				return true // the cache of a part of the bucket has no reserved keys
			}
			_, exists, err := e.records.Informer().GetStore().GetByKey(name)
			return exists || err != nil
		}
	}
	return apisource.NewSet(config)
}

// apiHost is the engine as the sources behind APIs see it.
type apiHost struct{ *Engine }

var _ apisource.Host = apiHost{}

// Resume implements apisource.Host.
func (h apiHost) Resume(it queue.Item) { h.resume(it) }

// RetryAfter implements apisource.Host.
func (h apiHost) RetryAfter(it queue.Item, after time.Duration) {
	h.retryAfter(it, it.Ops, after)
}

// Resume makes a primary due whose attempt has failed: the reason may be gone.
func (e *Engine) Resume(key string) { e.resumeKey(key) }

// resumeKey is resume of a key of which nothing else is known: it is of the backlog.
func (e *Engine) resumeKey(key string) { e.resume(queue.Item{Key: key, Prio: queue.Background}) }

// resume makes a key due that has waited: for an API, a name, an API server, or the end of a teardown. While another
// replica works, a key that is gone is forgotten: the record says whether its teardown is owed, and this replica asks
// for it when its turn comes.
func (e *Engine) resume(it queue.Item) {
	e.leadership.mu.RLock()
	defer e.leadership.mu.RUnlock()
	if e.leadership.waits && !e.primary.Exists(it.Key) {
		e.dueBeside(it.Key)
		return
	}
	apiHost{e}.RetryAfter(it, 0)
}
