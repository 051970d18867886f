package source

import (
	"context"
	"encoding/json"

	"github.com/nagi-runtime/nagi/entity"
)

// Suspend asks, by an annotation of the document, that it is not reconciled; reason is for people, and "" leaves the
// one that is there. It writes by compare-and-set, and only where the document says something else: changed tells
// whether it did.
func (s *Primary[T]) Suspend(ctx context.Context, key, reason string) (changed bool, err error) {
	return SetSuspended(ctx, s.client, key, true, reason)
}

// Resume takes that back, with the reason.
func (s *Primary[T]) Resume(ctx context.Context, key string) (changed bool, err error) {
	return SetSuspended(ctx, s.client, key, false, "")
}

// SetSuspended is Suspend or Resume with a client.
func SetSuspended[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], key string, suspended bool, reason string,
) (changed bool, err error) {
	document, err := client.Get(ctx, key)
	if err != nil {
		return false, err
	}
	was, now := document.GetAnnotations(), map[string]any{}
	_, explained := was[entity.SuspendReasonAnnotation]
	switch is := was[entity.SuspendAnnotation] == "true"; {
	case !suspended && (is || explained):
		now[entity.SuspendAnnotation], now[entity.SuspendReasonAnnotation] = nil, nil
	case suspended && !is:
		now[entity.SuspendAnnotation] = "true"
		if reason == "" && explained {
			now[entity.SuspendReasonAnnotation] = nil // of another time
		}
	}
	if suspended && reason != "" && was[entity.SuspendReasonAnnotation] != reason {
		now[entity.SuspendReasonAnnotation] = reason
	}
	if len(now) == 0 {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": now}})
	if err != nil {
		return false, err
	}
	return true, client.Patch(ctx, key, patch)
}
