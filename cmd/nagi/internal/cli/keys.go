package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/cmd/nagi/internal/kinds"
)

// mostCompleted bounds how many keys a shell is offered.
const mostCompleted = 500

// keysOf are the first keys of a kind's documents, each after a prefix.
func (s *session) keysOf(ctx context.Context, k *kinds.Kind, prefix string) (all []string) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	kv, err := s.js.KeyValue(ctx, k.Bucket)
	if err != nil {
		return nil
	}
	keys, err := kv.ListKeys(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = keys.Stop() }()
	for key := range keys.Keys() {
		if k.Namespaced {
			key = strings.Replace(key, ".", "/", 1)
		}
		if all = append(all, prefix+key); len(all) == mostCompleted {
			break
		}
	}
	slices.Sort(all)
	return all
}
