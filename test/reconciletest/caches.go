package reconciletest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/source"
)

const (
	// cachePatience is how long a cache may take to show what is in its bucket.
	cachePatience = 20 * time.Second
	// handlerPatience is how long the news of a delete may take from the cache to its handler. It is not always told.
	handlerPatience = cachePatience
	// cascadePatience is how long Delete goes on with a cascade of which something does not go. It is shorter, because a
	// test may want that, with a finalizer for example.
	cascadePatience = 10 * time.Second
	cascadePause    = 10 * time.Millisecond
)

// caches are those of the controller's sources in NATS.
type caches []source.Bucket

func cachesOf(e *engine.Engine) (all caches) {
	for _, s := range e.Sources() {
		if s, ok := s.(interface{ Buckets() []source.Bucket }); ok {
			all = append(all, s.Buckets()...)
		}
	}
	return all
}

// await waits until all caches show the changes.
func (c caches) await(ctx context.Context, changes []change) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cachePatience, fmt.Errorf("not shown after %v", cachePatience))
	defer cancel()
	for _, of := range c {
		last := map[string]uint64{}
		for _, change := range changes {
			if change.bucket == of.Name && shows(of.Filter, change.key) {
				last[change.key] = change.revision
			}
		}
		for key, revision := range last {
			if err := of.Cache.WaitKey(ctx, key, revision); err != nil {
				return fmt.Errorf("wait until the cache of bucket %s shows %q at revision %d: %w",
					of.Name, key, revision, context.Cause(ctx))
			}
		}
	}
	return nil
}

// shows tells whether a cache with a filter has a key. The runtime's own keys are none of its entries.
func shows(filter, key string) bool {
	if strings.HasPrefix(key, entity.ReservedPrefix) {
		return false
	}
	pattern, tokens := strings.Split(filter, "."), strings.Split(key, ".")
	for i, want := range pattern {
		switch {
		case want == ">":
			return i < len(tokens)
		case i >= len(tokens) || want != "*" && want != tokens[i]:
			return false
		}
	}
	return len(pattern) == len(tokens)
}

// name is the kind and key of a change, as its source has them.
func (c caches) name(change change) (kind, key string) {
	for _, of := range c {
		if of.Name != change.bucket {
			continue
		}
		key := change.key
		if of.Namespaced {
			key = strings.Replace(key, ".", "/", 1)
		}
		return of.Kind, key
	}
	return "", change.key
}
