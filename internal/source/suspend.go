package source

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
)

// Suspend asks, by an annotation of the document, that it is not reconciled, or takes that back. It writes by
// compare-and-set, and only where the document says something else: changed tells whether it did.
func (s *Primary[T]) Suspend(ctx context.Context, key string, suspended bool) (changed bool, err error) {
	document, err := s.client.Get(ctx, key)
	if err != nil || suspended == (View{Object: document}).Suspended() {
		return false, err
	}
	value := "null"
	if suspended {
		value = `"true"`
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, entity.SuspendAnnotation, value)
	return true, s.client.Patch(ctx, key, []byte(patch))
}
