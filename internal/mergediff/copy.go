package mergediff

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// CopyOf is obj.DeepCopyObject for an object that a user has filled. Of an unstructured one that panics where a field
// is an int, a []string or a struct, which JSON takes: here such a field becomes what it is when it is read. What JSON
// does not take stays as it is, so that who encodes it says what is wrong.
func CopyOf[T runtime.Object](obj T) T {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		if u == nil {
			return obj
		}
		return any(&unstructured.Unstructured{Object: objectAsRead(u.Object)}).(T)
	}
	return obj.DeepCopyObject().(T)
}

func objectAsRead(fields map[string]any) map[string]any {
	if fields == nil {
		return nil
	}
	out := make(map[string]any, len(fields))
	for name, value := range fields {
		out[name] = asRead(value)
	}
	return out
}

func asRead(value any) any {
	switch value := value.(type) {
	case nil, string, bool, int64, float64, json.Number:
		return value
	case map[string]any:
		return objectAsRead(value)
	case []any:
		if value == nil {
			return value
		}
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = asRead(item)
		}
		return out
	}
	if _, own := value.(json.Marshaler); !own {
		switch v := reflect.ValueOf(value); v.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			return v.Int()
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			if n := v.Uint(); n > math.MaxInt64 {
				return json.Number(strconv.FormatUint(n, 10))
			}
			return int64(v.Uint())
		}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return value
	}
	fields, err := fieldsOfJSON(data)
	if err != nil {
		return value
	}
	return fields
}
