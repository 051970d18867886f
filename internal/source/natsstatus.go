package source

import (
	"bytes"
	"cmp"
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusChanged treats a change of an entity's record, of which before or after may be nil, as a change of the
// entity. What the entity's own controller notes in the record for itself is none.
func (s *NATS[T]) statusChanged(ctx context.Context, before, after any) {
	old, key, _ := entity.RecordOf(before)
	current, newKey, ok := entity.RecordOf(after)
	if ok {
		key = newKey
	}
	if key == "" || IsReserved(key) || sameToOthers(old, current) {
		return
	}
	cached, exists, err := s.client.Informer().GetStore().GetByKey(key)
	if err != nil || !exists {
		return
	}
	if s.seen != nil {
		ctx = s.causedIn(ctx, s.client.Config().StatusBucket, cmp.Or(after, before))
	}
	if !s.Joined {
		obj := cached.(metav1.Object)
		s.sink.Updated(ctx, obj, obj)
		return
	}
	obj := cached.(T)
	s.sink.Updated(ctx, s.port.WithStatusOf(obj, before), s.port.WithStatusOf(obj, after))
}

// sameToOthers tells whether two records say the same about their entity; nil says nothing.
func sameToOthers(a, b *entity.Record) bool {
	if a == nil {
		a = &entity.Record{}
	}
	if b == nil {
		b = &entity.Record{}
	}
	return a.ObservedRevision == b.ObservedRevision && bytes.Equal(a.Status, b.Status) &&
		equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}

// withStatus puts document and status together, where a mapper or predicate looks at the status.
func (s *NATS[T]) withStatus(document any) metav1.Object {
	if !s.Joined {
		return document.(metav1.Object)
	}
	obj := document.(T)
	var record any
	if records := s.port.Records(); records != nil {
		record, _, _ = records.Informer().GetStore().GetByKey(ObjectKey(obj))
	}
	return s.port.WithStatusOf(obj, record)
}
