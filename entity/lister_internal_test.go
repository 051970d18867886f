package entity

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// storing is an informer with a store, and a cursor that the test sets.
type storing struct {
	followed
	store cache.Store
}

func (s *storing) GetStore() cache.Store { return s.store }

// A cursor may stand before a sequence that is missing, while the store has a later write to the key.
func TestAnOwnWriteHidesNothingNewerThatTheStoreHas(t *testing.T) {
	type thing = Object[struct{}, struct{}]
	const own = 5
	document := func(revision int64) *thing {
		return &thing{ObjectMeta: metav1.ObjectMeta{Name: "k", Generation: revision}}
	}
	record := func(revision uint64) *RecordObject {
		return &RecordObject{recordMeta: recordMeta{key: "k"}, Record: &Record{Revision: revision}}
	}
	for stored, want := range map[uint64]uint64{0: own, own - 1: own, own: own, own + 2: own + 2} {
		docs := &storing{followed{cursor: own - 1}, cache.NewStore(cache.MetaNamespaceKeyFunc)}
		records := &storing{followed{cursor: own - 1}, cache.NewStore(cache.MetaNamespaceKeyFunc)}
		if stored > 0 {
			ok(t, docs.store.Add(document(int64(stored))))
			ok(t, records.store.Add(record(stored)))
		}
		writes := newOverlay[*thing](docs, nil)
		g := &generation[*thing]{documents: &documentCache[*thing]{held: docs, informer: docs, writes: writes}, writes: writes}
		r := &recordCache{store: records, writes: newOverlay[*RecordObject](records, nil)}

		g.writes.put(t.Context(), "k", sequence{revision: own}, document(own))
		r.writes.put(t.Context(), "k", sequence{revision: own}, record(own))
		if obj, revision, found := g.lookup("k"); !found || revision != want || uint64(obj.Generation) != want {
			t.Errorf("stored at %d and written at %d, the document is at %d, found %v", stored, own, revision, found)
		}
		if o := r.get("k"); o == nil || o.Record.Revision != want {
			t.Errorf("stored at %d and written at %d, the record is %+v", stored, own, o)
		}

		g.writes.delete(t.Context(), "k", sequence{revision: own})
		r.writes.delete(t.Context(), "k", sequence{revision: own})
		there := stored > own
		if _, revision, found := g.lookup("k"); found != there || revision != want {
			t.Errorf("stored at %d and deleted at %d, the document is found %v, at %d", stored, own, found, revision)
		}
		if o := r.get("k"); (o != nil) != there {
			t.Errorf("stored at %d and deleted at %d, the record is %+v", stored, own, o)
		}
	}
}
