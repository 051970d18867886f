package kinds

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
)

// Document is one as its bucket has it, with its record.
type Document struct {
	Key      string // client-go's
	Revision uint64
	Value    []byte
	Record   []byte // nil if there is none
	// Expires is when it ends by its TTL, as entity.ExpiresAnnotation has it; "" if it has none.
	Expires string
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(data []byte) (map[string]any, error) {
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return v, d.Decode(&v)
}

// View is what columns and people see of a document: as docs/kinds.md says, with name, namespace and revision from the
// key, the status and the record put in, and the annotation that says when it ends by its TTL. A document that is no
// JSON object has nothing but these.
func (k *Kind) View(d Document) map[string]any {
	view, _ := decodeJSON(d.Value)
	if view == nil {
		view = map[string]any{}
	}
	meta, _ := view["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = d.Key
	delete(meta, "namespace")
	if namespace, name, ok := strings.Cut(d.Key, "/"); ok && k.Namespaced {
		meta["namespace"], meta["name"] = namespace, name
	}
	meta["resourceVersion"] = strconv.FormatUint(d.Revision, 10)
	showExpiry(meta, d.Expires)
	view["metadata"] = meta
	delete(view, "status")
	if record, _ := decodeJSON(d.Record); record != nil {
		view["record"] = record
		if status := record["status"]; status != nil {
			view["status"] = status
		}
	}
	return view
}

// Object is a view as it is shown and saved: without the record, with kind and apiVersion.
func (k *Kind) Object(view map[string]any) map[string]any {
	object := maps.Clone(view)
	delete(object, "record")
	if object["kind"] == nil && k.Registered {
		object["kind"] = k.Kind
	}
	if object["apiVersion"] == nil && k.APIVersion != "" {
		object["apiVersion"] = k.APIVersion
	}
	return object
}

// showExpiry sets the annotation that says when a document ends. What a document itself says is ignored, as by clients.
func showExpiry(meta map[string]any, expires string) {
	had, _ := meta["annotations"].(map[string]any)
	if _, says := had[entity.ExpiresAnnotation]; !says && expires == "" {
		return
	}
	annotations := maps.Clone(had)
	if delete(annotations, entity.ExpiresAnnotation); expires != "" {
		if annotations == nil {
			annotations = map[string]any{}
		}
		annotations[entity.ExpiresAnnotation] = expires
	}
	if meta["annotations"] = annotations; len(annotations) == 0 {
		delete(meta, "annotations")
	}
}
