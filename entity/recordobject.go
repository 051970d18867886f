package entity

import (
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// RecordObject is a record in the store of Records.Informer. It has the entity's name and namespace, and no labels,
// finalizers or other metadata; setting those does nothing. It is shared and must not be modified.
type RecordObject struct {
	recordMeta
	// Record has no LastDocument. It is nil for a reserved key; the object's name is then the whole NATS key.
	Record *Record

	status any // see statusDecoder
	// other is the metadata that a record has when it is deleted, and a reserved key always; nil: there is none.
	other *otherMeta
}

// otherMeta is metadata that does not come of a record.
type otherMeta struct {
	revision    uint64
	annotations map[string]string // set by the informer, on what was deleted
}

var _ metav1.Object = (*RecordObject)(nil)

// RecordOf returns the record and the key of an object that a handler of Records.Informer got. It unwraps a
// DeletedFinalStateUnknown. ok is false for reserved keys, which are no records.
func RecordOf(obj any) (rec *Record, key string, ok bool) {
	if unknown, is := obj.(cache.DeletedFinalStateUnknown); is {
		obj = unknown.Obj
	}
	o, is := obj.(*RecordObject)
	if !is || o.Record == nil {
		return nil, "", false
	}
	return o.Record, o.key, true
}

// setRevision is for an object that is not shared yet.
func (o *RecordObject) setRevision(revision uint64) {
	o.Record.Revision = revision
}

// GetGeneration returns the record's revision. For a deleted record, GetResourceVersion returns that of its marker.
func (o *RecordObject) GetGeneration() int64 {
	if o.Record == nil {
		return int64(o.resourceVersion())
	}
	return int64(o.Record.Revision)
}

func (o *RecordObject) resourceVersion() uint64 {
	switch {
	case o.other != nil:
		return o.other.revision
	case o.Record != nil:
		return o.Record.Revision
	default:
		return 0
	}
}

// GetResourceVersion returns the record's revision, or that of the marker that deleted it.
func (o *RecordObject) GetResourceVersion() string {
	return strconv.FormatUint(o.resourceVersion(), 10)
}

// SetResourceVersion ignores what is no revision. It does not write a revision that is there already: an object that
// this process made may have readers when the informer gets it.
func (o *RecordObject) SetResourceVersion(version string) {
	if revision, err := strconv.ParseUint(version, 10, 64); err == nil && revision != o.resourceVersion() {
		o.other = &otherMeta{revision, o.GetAnnotations()}
	}
}

// GetAnnotations returns what the informer has set on a deleted record.
func (o *RecordObject) GetAnnotations() map[string]string {
	if o.other == nil {
		return nil
	}
	return o.other.annotations
}

// SetAnnotations is for the informer.
func (o *RecordObject) SetAnnotations(annotations map[string]string) {
	o.other = &otherMeta{o.resourceVersion(), annotations}
}

// GetObjectKind returns an empty kind: records are no API objects.
func (o *RecordObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns a copy. It shares the parts that are never changed.
func (o *RecordObject) DeepCopyObject() runtime.Object {
	out := &RecordObject{}
	if o.Record != nil {
		out = copyOf(o.Record).object()
	}
	out.recordMeta, out.status = o.recordMeta, o.status
	if o.other != nil {
		out.other = &otherMeta{o.other.revision, maps.Clone(o.other.annotations)}
	}
	return out
}

// recordCell is a RecordObject and what it points to, as one allocation. A process may have a million of them, and the
// garbage collector's work grows with the number of objects.
type recordCell struct {
	own        RecordObject
	record     cachedRecord
	conditions [1]metav1.Condition // nearly all records have one
}

// cachedRecord is the form into which a record is decoded for the cache.
type cachedRecord struct {
	LastDocument skipped `json:"lastDocument"` // instead of the Record's
	Record
}

// skipped is a JSON value that is checked and not kept.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// decodeCached is decodeRecord without LastDocument.
func decodeCached(data []byte, revision uint64) (*recordCell, error) {
	c := &recordCell{}
	c.record.Conditions = c.conditions[:0]
	if err := unmarshalRecord(data, &c.record); err != nil {
		return nil, undecodable(revision, err)
	}
	if len(c.record.Conditions) == 0 {
		c.record.Conditions = nil
	}
	c.record.Revision = revision
	return c, nil
}

// copyOf copies a record as Clone does, but without LastDocument.
func copyOf(rec *Record) *recordCell {
	c := &recordCell{}
	c.record.Record = *rec
	c.record.Record.LastDocument, c.record.Conditions = nil, nil
	if len(rec.Conditions) > 0 {
		c.record.Conditions = append(c.conditions[:0], rec.Conditions...)
	}
	return c
}

func (c *recordCell) object() *RecordObject {
	c.own.Record = &c.record.Record
	return &c.own
}

// recordMeta is the metadata of a cached record. A metav1.ObjectMeta would be most of its size.
type recordMeta struct {
	noMeta
	key string // as client-go makes it of namespace and name
}

func (m *recordMeta) GetNamespace() string { namespace, _ := splitKey(m.key); return namespace }
func (m *recordMeta) GetName() string      { _, name := splitKey(m.key); return name }

func (m *recordMeta) SetNamespace(namespace string) { m.key = joinKey(namespace, m.GetName()) }
func (m *recordMeta) SetName(name string)           { m.key = joinKey(m.GetNamespace(), name) }

func splitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}

func joinKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// noMeta is the metadata that a record does not have. Setting it does nothing, as metav1.Common says.
type noMeta struct{}

func (noMeta) GetGenerateName() string                       { return "" }
func (noMeta) SetGenerateName(string)                        {}
func (noMeta) GetUID() types.UID                             { return "" }
func (noMeta) SetUID(types.UID)                              {}
func (noMeta) SetGeneration(int64)                           {}
func (noMeta) GetSelfLink() string                           { return "" }
func (noMeta) SetSelfLink(string)                            {}
func (noMeta) GetCreationTimestamp() metav1.Time             { return metav1.Time{} }
func (noMeta) SetCreationTimestamp(metav1.Time)              {}
func (noMeta) GetDeletionTimestamp() *metav1.Time            { return nil }
func (noMeta) SetDeletionTimestamp(*metav1.Time)             {}
func (noMeta) GetDeletionGracePeriodSeconds() *int64         { return nil }
func (noMeta) SetDeletionGracePeriodSeconds(*int64)          {}
func (noMeta) GetLabels() map[string]string                  { return nil }
func (noMeta) SetLabels(map[string]string)                   {}
func (noMeta) GetFinalizers() []string                       { return nil }
func (noMeta) SetFinalizers([]string)                        {}
func (noMeta) GetOwnerReferences() []metav1.OwnerReference   { return nil }
func (noMeta) SetOwnerReferences([]metav1.OwnerReference)    {}
func (noMeta) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }
func (noMeta) SetManagedFields([]metav1.ManagedFieldsEntry)  {}
