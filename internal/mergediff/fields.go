package mergediff

import (
	"encoding/base64"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// FieldsOf returns the fields of an object; they are a copy.
func FieldsOf(item any) (map[string]any, error) {
	if u, ok := item.(*unstructured.Unstructured); ok {
		return runtime.DeepCopyJSON(u.Object), nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", item, err)
	}
	return fields, nil
}

// StringDataIsData does to a Secret what the API server does. The server would keep an applied stringData as ours,
// though no object has it, and the data as nobody's: a change of the data would never show.
func StringDataIsData(fields map[string]any) {
	texts, ok := fields["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, _ := fields["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for name, text := range texts {
		text, ok := text.(string)
		if !ok {
			return // the API server says what is wrong
		}
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	if delete(fields, "stringData"); len(data) > 0 {
		fields["data"] = data
	}
}

// DropNulls removes the members of JSON objects that are null, at any depth, in place.
func DropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
				continue
			}
			DropNulls(field)
		}
	case []any:
		for _, item := range value {
			DropNulls(item)
		}
	}
}

// OnlyMetadata tells whether an informer keeps no more of its objects.
func OnlyMetadata(obj metav1.Object) bool {
	_, ok := obj.(*metav1.PartialObjectMetadata)
	return ok
}
