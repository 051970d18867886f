package entity

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// statusDecoder is the part of a codec that records need. It decodes a status into the form that is put into an entity:
// a pointer to a value of the type of the field "status", or unstructured content. All readers of a record share it and
// never change it.
type statusDecoder interface {
	decodeStatus(raw []byte) any
	// tellsOf reports whether a document has all the unknown members that warnings of ConditionDocumentWarnings name.
	tellsOf(document []byte, warnings string) bool
	// hasText reports whether a document has all the text that is none of which warnings of ConditionDocumentWarnings
	// tell.
	hasText(document []byte, warnings string) bool
	// mayLack reports whether a last document may come without secrets that interfaces held.
	mayLack(document []byte) bool
}

// decodeStatus returns nil for no status, and for one that does not decode into T's. It may be of another version, and
// the entity must stay readable for the controller that will write a new one.
func (c *codec[T]) decodeStatus(raw []byte) any {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) || !c.hasStatus() {
		return nil
	}
	if c.unstructured {
		var content any
		if utiljson.Unmarshal(raw, &content) != nil {
			return nil
		}
		return content
	}
	field := reflect.New(c.elem.FieldByIndex(c.status).Type).Interface()
	if c.unmarshal(raw, field) != nil {
		return nil
	}
	return field
}

// statusJSON encodes the status of obj; nil if it is the zero value.
func (c *codec[T]) statusJSON(obj T) (stdjson.RawMessage, error) {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		if u.Object["status"] == nil {
			return nil, nil
		}
		return anyJSON.Marshal(u.Object["status"])
	}
	if c.status == nil {
		return nil, fmt.Errorf("%v has no field with the JSON name status", c.elem)
	}
	status := reflect.ValueOf(obj).Elem().FieldByIndex(c.status)
	if status.IsZero() {
		return nil, nil
	}
	return c.marshal(status.Interface())
}

func (c *codec[T]) clearStatus(obj T) {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		delete(u.Object, "status")
		return
	}
	if c.status != nil {
		reflect.ValueOf(obj).Elem().FieldByIndex(c.status).SetZero()
	}
}

// WithStatusOf implements EnginePort.
func (c enginePort[T]) WithStatusOf(obj T, record any) T {
	rec, _ := record.(*RecordObject)
	if rec != nil && rec.Record == nil {
		rec = nil
	}
	return c.codec.join(obj, rec, markOf(obj).read)
}

// join returns a copy of a document with the status of its record, which may be nil. It copies once: a shallow copy
// joins the two, and that is copied deeply. It changes neither document nor record. read says how the document was.
func (c *codec[T]) join(document T, rec *RecordObject, read reading) T {
	out := c.joinStatus(document, rec)
	statusRevision := uint64(0)
	if rec != nil {
		statusRevision = rec.Record.StatusRevision
	}
	setMark(out, c.kind, mark{revision: statusRevision, joined: true, read: read})
	return out
}

func (c *codec[T]) joinStatus(document T, rec *RecordObject) T {
	if rec == nil || rec.status == nil {
		return document.DeepCopyObject().(T)
	}
	if u, ok := any(document).(*unstructured.Unstructured); ok {
		shallow := make(map[string]any, len(u.Object)+1)
		for name, value := range u.Object {
			shallow[name] = value
		}
		shallow["status"] = rec.status
		return any((&unstructured.Unstructured{Object: shallow}).DeepCopy()).(T)
	}
	shallow := reflect.New(c.elem)
	shallow.Elem().Set(reflect.ValueOf(document).Elem())
	shallow.Elem().FieldByIndex(c.status).Set(reflect.ValueOf(rec.status).Elem())
	return shallow.Interface().(T).DeepCopyObject().(T)
}
