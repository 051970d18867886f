package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// newAPIs makes the set of the sources behind APIs.
func (e *engine) newAPIs() *apisource.Set {
	config := apisource.Config{
		Host: apiHost{e}, Kind: e.kind, Bucket: e.statusBucket,
		Changed:       e.sourceHealth,
		Malformed:     func() { e.stats.malformed.Add(1) },
		BreakerOpened: func() { e.stats.breakerOpened.Add(1) },
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
type apiHost struct{ *engine }

var _ apisource.Host = apiHost{}

// InstanceID implements apisource.Host.
func (h apiHost) InstanceID() string { return h.instanceID() }

// Resume implements apisource.Host.
func (h apiHost) Resume(it queue.Item) { h.resume(it) }

// RetryAfter implements apisource.Host.
func (h apiHost) RetryAfter(it queue.Item, after time.Duration) {
	ops := operation.Union(it.Ops, operation.Of(OperationRetry))
	h.queue.AddAfter(it.Key, ops, queue.Background, after, queue.RetryDelay)
}

// resume makes a key due that has waited for an API. While another replica works, a key that is gone is forgotten: the
// record says whether its teardown is owed, and this replica asks for it when its turn comes.
func (e *engine) resume(it queue.Item) {
	e.leadership.mu.RLock()
	defer e.leadership.mu.RUnlock()
	if e.leadership.waits && !e.primary.Exists(it.Key) {
		return
	}
	apiHost{e}.RetryAfter(it, 0)
}

// waiterFor returns what a key has to wait for after an error; nil if the error is a failure.
func (e *engine) waiterFor(key string, err error) apisource.Waiter {
	if err == nil || isTerminal(err) {
		return nil
	}
	return e.apis.WaiterFor(key, err)
}

// withLeftOpen is the error of a clean-up that failed, with the intents that were left open. Somebody else settles
// those, so the teardown is tried again and again, whatever err is, unless the document is back.
func withLeftOpen(left *apisource.LeftOpen, err error) error {
	if left.Err == nil || errors.Is(err, errBackAgain) {
		return err
	}
	return fmt.Errorf("%w; and %v", left.Err, err)
}

// spare leaves out of what a primary owned the resources that its reconciler only observed.
func (e *engine) spare(
	ctx context.Context, key string, targets []ownedObject,
) (rest []ownedObject, spared bool, err error) {
	owned := map[source.Owned]int{}
	for _, target := range targets {
		owned[target.source]++
	}
	stay, err := e.apis.Spared(ctx, key, owned)
	if err != nil || len(stay) == 0 {
		return targets, false, err
	}
	for _, target := range targets {
		if !stay[target.source] {
			rest = append(rest, target)
		}
	}
	return rest, true, nil
}

// forgottenIntents are the intents of keys that neither exist nor owe a teardown: somebody has removed the record.
// Nothing is asked of a server about other keys. Where the client has a Config.Filter the cache has no reserved keys,
// and none are found.
func (e *engine) forgottenIntents(ctx context.Context) brake.Orphans {
	found := brake.Orphans{Source: "intents", Owners: map[string]int{}}
	names := map[string]struct{}{}
	for _, name := range e.records.Informer().GetStore().ListKeys() {
		if strings.HasPrefix(name, record.IntentsPrefix) {
			names[name] = struct{}{}
		}
	}
	if len(names) == 0 {
		return found
	}
	found.Known = len(names)
	for _, key := range e.primary.Keys() {
		delete(names, record.IntentsKey(key))
	}
	for key, anchor := range e.records.All() {
		if record.IsAnchor(anchor) {
			delete(names, record.IntentsKey(key))
		}
	}
	for name := range names {
		kept, held, err := record.JSON[apisource.Intents](e.reserved, name).Load(ctx)
		if err != nil || !held || record.IntentsKey(kept.Key) != name {
			continue
		}
		if e.primary.Exists(kept.Key) || record.IsAnchor(e.anchors.Cached(kept.Key)) || !e.WellFormed(kept.Key) {
			continue
		}
		found.Owners[kept.Key]++
		found.Count++
	}
	return found
}
