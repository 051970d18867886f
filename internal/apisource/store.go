package apisource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/turn"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// store keeps the intents of one primary. It implements external.Store.
type store struct {
	set    *Set
	key    string
	saving turn.Turn
}

var _ external.Store = store{}

var errNoIntents = errors.New(
	"WithoutTeardown there is no status bucket to write intents to; external.Reconcile needs one",
)

// Load implements external.Store.
func (s store) Load(ctx context.Context, resource string) (external.Entry, error) {
	if s.set.shared.Records == nil {
		return external.Entry{}, errNoIntents
	}
	kept, _, err := s.set.readIntents(ctx, s.key)
	if err != nil {
		return external.Entry{}, err
	}
	return s.set.intents.meet(s.key, resource, kept.Resources[resource]), nil
}

// Save implements external.Store.
func (s store) Save(ctx context.Context, resource string, before, after external.Entry) error {
	shared := &s.set.shared
	if shared.Records == nil {
		return errNoIntents
	}
	if err := s.saving.Take(ctx); err != nil {
		return err
	}
	defer s.saving.Give()
	for tries := 0; ; tries++ {
		kept, revision, err := s.set.readIntents(ctx, s.key)
		if err != nil {
			return err
		}
		if !kept.Resources[resource].Same(before) {
			return fmt.Errorf("the intents of %s %q (%s in bucket %s): somebody else has changed what is kept of %s; "+
				"two reconciles of one resource at once?",
				shared.Kind, s.key, record.IntentsKey(s.key), shared.Bucket, resource)
		}
		if kept.Resources == nil {
			kept.Resources = map[string]external.Entry{}
		}
		kept.Key = s.key
		kept.Resources[resource] = after
		if after.IsZero() {
			delete(kept.Resources, resource)
		}
		err = s.set.writeIntents(ctx, kept, revision)
		if err == nil {
			s.set.intents.meet(s.key, resource, after)
			s.set.expectCreated(s.key, resource, kept, before, after)
		}
		if err == nil || tries == maxConflicts || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// expectCreated lets the source of a resource expect it in its next lists, if what was written says that it was
// created.
func (s *Set) expectCreated(key, resource string, kept Intents, before, after external.Entry) {
	kind := kindOf(resource)
	from := s.Source(kind)
	created := before.Intent != nil && before.Intent.Action == external.ActionCreate &&
		after.Intent == nil && after.Applied == before.Intent.Digest
	if from == nil || !created {
		return
	}
	settle := from.config.Settle
	if after.Created != nil {
		settle = max(settle, after.Created.Settle)
	}
	least := 0
	for other, entry := range kept.Resources {
		if kindOf(other) == kind && entry.Intent == nil && !entry.ObserveOnly {
			least++
		}
	}
	from.expect(key, least, time.Now().Add(settle))
}
