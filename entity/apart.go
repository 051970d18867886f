package entity

import (
	"context"
	"fmt"
	"iter"
	"unique"

	"github.com/nagi-runtime/nagi/internal/parts"
	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Where replicas share the keys of a kind, each may keep in its caches what belongs to its own keys, and of the rest no
// more than who decides about deletes for all has to know: that a key exists, what it owes, and a hash of who owns it.

// Division says what of a client's documents and records its caches keep.
type Division struct {
	// Parts are those of which they keep all.
	Parts *parts.Parts
	// Owners is the kind of the owners whose parts count; "": those of the keys themselves count, and of records too.
	Owners string
	// Plain returns what an object that primaries of Owners own says of that, if no more of it has to be known where
	// its owner is in another part: the key of the owner, its installation, and the stream of its stamp, if it has one.
	// Others are kept.
	Plain func(obj metav1.Object) (key, instance, stream string, ok bool)
}

// ApartDocument is what is kept of a document that belongs to an owner in another part.
type ApartDocument struct {
	Key              string
	Owner            uint64 // the OwnerHash
	Instance, Stream string
}

// division is a Division in use.
type division struct {
	Division
	keys []apartKey // by part
}

// apart is the common part of what a cache keeps of what is apart.
type apart struct{}

func (apart) IsApart()                         {}
func (apart) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// apartKey is kept of a document whose key is apart. All keys of a part share one.
type apartKey struct {
	apart
	part int
}

func (a *apartKey) DeepCopyObject() runtime.Object { return a }

// apartOwned is kept of a document whose owner is apart.
type apartOwned struct {
	apart
	part  int32
	owner uint64 // see ownerHash
	marks unique.Handle[ownerMarks]
}

type ownerMarks struct{ instance, stream string }

func (a *apartOwned) DeepCopyObject() runtime.Object { return a }

// apartRecord is kept of a record that is apart, of which there is nothing to tell but that all is well.
type apartRecord struct {
	apart
	of                 unique.Handle[recordOrigin]
	document, observed uint64
}

type recordOrigin struct{ controller, stream string }

func (a *apartRecord) DeepCopyObject() runtime.Object { return a }

// newApartRecord returns nil for a record of which there is more to tell than fits.
func newApartRecord(rec *Record) *apartRecord {
	if rec.Controller == "" || rec.Invalid != nil || rec.DeletionPolicy != "" || rec.DocumentExpires != "" ||
		len(rec.Conditions) != 1 || !meta.IsStatusConditionTrue(rec.Conditions, ConditionReconciled) {
		return nil
	}
	return &apartRecord{
		of:       unique.Make(recordOrigin{rec.Controller, rec.Stream}),
		document: rec.DocumentRevision, observed: rec.ObservedRevision,
	}
}

var apartConditions = []metav1.Condition{
	{Type: ConditionReconciled, Status: metav1.ConditionTrue, Reason: ReasonSynced},
}

// object is the record as far as it is known.
func (a *apartRecord) object(key string, revision uint64) *RecordObject {
	of := a.of.Value()
	return &RecordObject{recordMeta: recordMeta{key: key}, Record: &Record{
		SchemaVersion: RecordSchemaVersion, Controller: of.controller, Stream: of.stream,
		DocumentRevision: a.document, ObservedRevision: a.observed, Conditions: apartConditions, Revision: revision,
	}}
}

// ofKey is what is kept of a document of a key, and nil if the caches have the whole.
func (d *division) ofKey(key string) *apartKey {
	if d == nil || d.Owners != "" {
		return nil
	}
	if part := d.Parts.Of(key); !d.Parts.Want(part) {
		return &d.keys[part]
	}
	return nil
}

// ofOwner is ofKey for a document that may have an owner.
func (d *division) ofOwner(obj metav1.Object) *apartOwned {
	if d == nil || d.Owners == "" {
		return nil
	}
	key, instance, stream, ok := d.Plain(obj)
	if !ok {
		return nil
	}
	if part := d.Parts.Of(key); !d.Parts.Want(part) {
		return &apartOwned{
			part: int32(part), owner: ownerHash(d.Owners, key), marks: unique.Make(ownerMarks{instance, stream}),
		}
	}
	return nil
}

// wants reports whether what is apart is to be so no more.
func (d *division) wants(key string, a natsinformer.Apart) bool {
	switch a := a.(type) {
	case *apartKey:
		return d.Parts.Want(a.part)
	case *apartOwned:
		return d.Parts.Want(int(a.part))
	}
	return d.Parts.Wants(key)
}

// division returns the division of documents and records; nil: their caches have all.
func (c *Client[T]) division() *division { return c.shared.division.Load() }

// Divide implements EnginePort.
func (p enginePort[T]) Divide(of *Division) error {
	c := p.Client
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	if now := c.shared.division.Load(); now != nil && of != nil && now.Parts == of.Parts && now.Owners == of.Owners {
		return nil
	}
	if d := c.shared.current.Load(); d != nil && d.users > 0 {
		return fmt.Errorf("the cache of kind %s runs already, and cannot be divided by slots any more "+
			"(WithSlotCaches): make the controller before anything starts its clients", c.cfg.Kind)
	}
	if of == nil {
		c.shared.division.Store(nil)
		return nil
	}
	d := &division{Division: *of, keys: make([]apartKey, of.Parts.Many())}
	for part := range d.keys {
		d.keys[part].part = part
	}
	c.shared.division.Store(d)
	return nil
}

// Divided implements EnginePort.
func (p enginePort[T]) Divided() *parts.Parts {
	if d := p.division(); d != nil {
		return d.Parts
	}
	return nil
}

// Fetch implements EnginePort.
func (p enginePort[T]) Fetch(ctx context.Context) error {
	d, g := p.division(), p.generation()
	which := func(key string, a natsinformer.Apart) bool { return d.wants(p.keys.display(key), a) }
	if d.Owners == "" && g.records != nil { // first: who reads a document reads its status, too
		if err := g.records.store.Fetch(ctx, which); err != nil {
			return err
		}
	}
	return g.documents.held.Fetch(ctx, which)
}

// PutApart implements EnginePort.
func (p enginePort[T]) PutApart(ctx context.Context) error {
	d, g := p.division(), p.generation()
	err := g.documents.held.PutApart(ctx, func(key string, object runtime.Object) natsinformer.Apart {
		if a := d.ofKey(p.keys.display(key)); a != nil {
			return a
		}
		if obj, is := object.(metav1.Object); is {
			if a := d.ofOwner(obj); a != nil {
				return a
			}
		}
		return nil
	})
	if err != nil || d.Owners != "" || g.records == nil {
		return err
	}
	return g.records.store.PutApart(ctx, func(_ string, object runtime.Object) natsinformer.Apart {
		if a := p.records.apartOf(object); a != nil {
			return a
		}
		return nil
	})
}

// ApartOwned implements EnginePort.
func (p enginePort[T]) ApartOwned() iter.Seq[ApartDocument] {
	return func(yield func(ApartDocument) bool) {
		for key, known := range p.generation().documents.held.AllKnown() {
			a, is := known.(*apartOwned)
			if !is {
				continue
			}
			marks := a.marks.Value()
			if !yield(ApartDocument{p.keys.display(key), a.owner, marks.instance, marks.stream}) {
				return
			}
		}
	}
}

// OwnerHash implements EnginePort.
func (p enginePort[T]) OwnerHash(key string) uint64 {
	if d := p.division(); d != nil {
		return ownerHash(d.Owners, key)
	}
	return 0
}

// apartOf is what is kept of a record in the cache whose key is apart; nil for others, and for reserved keys.
func (r *Records) apartOf(object runtime.Object) *apartRecord {
	o, is := object.(*RecordObject)
	d := r.division()
	if !is || o.Record == nil || d == nil || d.Owners != "" || d.Parts.Wants(o.key) {
		return nil
	}
	return newApartRecord(o.Record)
}

// tellApart passes on that a document is apart, and what was known of its key before.
func (s *hookState) tellApart(key string, before runtime.Object, now natsinformer.Apart, unpack func(any) any) {
	change := ApartChange{}
	switch was := before.(type) {
	case *apartOwned:
		is, owned := now.(*apartOwned)
		change.OwnerChanged = !owned || was.owner != is.owner
	case natsinformer.Apart, nil:
	default:
		change.Before, _ = unpack(before).(metav1.Object)
		change.OwnerChanged = true
	}
	s.tell(func() {}, func(hooks Hooks) {
		if hooks.Apart != nil {
			hooks.Apart(key, change)
		}
	})
}

func (s *hookState) tellApartGone(key string, how natsinformer.Deletion) {
	s.tell(func() {}, func(hooks Hooks) {
		if hooks.ApartGone != nil {
			hooks.ApartGone(key, how)
		}
	})
}

// tellApartRecord is for a record; gone says that it is what was there before.
func (s *hookState) tellApartRecord(record *RecordObject, gone bool) {
	s.tell(func() {}, func(hooks Hooks) {
		if hooks.ApartRecord != nil {
			hooks.ApartRecord(record, gone)
		}
	})
}
