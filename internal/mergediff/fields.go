package mergediff

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FieldsOf returns the fields of an object, as encoding/json would write them; they are a copy.
func FieldsOf(item any) (fields map[string]any, err error) {
	if u, ok := item.(*unstructured.Unstructured); ok {
		return objectAsRead(u.Object), nil
	}
	if t := reflect.TypeOf(item); t.Kind() == reflect.Pointer && faithful(t.Elem()) {
		fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	} else {
		fields, err = fieldsByJSON(item)
	}
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", item, err)
	}
	return fields, nil
}

// Into reads fields, which it takes over, into an object: a pointer to a zero value.
func Into(fields map[string]any, obj any) error {
	if faithful(reflect.TypeOf(obj).Elem()) {
		return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, obj)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(data, obj)
}

func fieldsByJSON(item any) (fields map[string]any, err error) {
	data, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	value, err := fieldsOfJSON(data)
	if err != nil {
		return nil, err
	}
	fields, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, errors.New("its JSON is no object")
	}
	return fields, nil
}

func fieldsOfJSON(data []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return withNumbers(value), nil
}

// withNumbers makes numbers what apimachinery makes of them, but for whole ones that it would round: those stay text.
func withNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = withNumbers(field)
		}
	case []any:
		for i, item := range value {
			value[i] = withNumbers(item)
		}
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		if number, err := value.Float64(); err == nil && strings.ContainsAny(string(value), ".eE") {
			return number
		}
	}
	return value
}

// StringDataIsData does to a Secret what the API server does. The server would keep an applied stringData as ours,
// though no object has it, and the data as no manager's: a change of the data would never show.
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
