package external

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

// lostError says that a field of Desired is not written down with the intent. After a crash only the intent is left,
// and something else would be applied.
type lostError struct{ field string }

func (e lostError) Error() string {
	return fmt.Sprintf("%s is not in its JSON, which is all that is left after a crash; give it a json tag, or, "+
		"where it is not to be written down in plain text, let the driver look it up by a name that is", e.field)
}

// survives returns an error if desired is not the same after it was written down and read.
func survives(desired any, document []byte) error {
	if desired == nil {
		return nil
	}
	read := reflect.New(reflect.TypeOf(desired))
	if err := jsonshape.AnyCoder().Unmarshal(document, read.Interface()); err != nil {
		return fmt.Errorf("its JSON does not decode: %w", err)
	}
	again, err := json.Marshal(read.Elem().Interface())
	if err != nil || !bytes.Equal(again, document) {
		return fmt.Errorf("it is not the same after it was written as JSON and read: %s became %s (%v)",
			document, again, err)
	}
	if field := lost(reflect.ValueOf(desired), read.Elem(), reflect.TypeOf(desired).String()); field != "" {
		return lostError{field}
	}
	return nil
}

// lost names a field that is set before and not after; "" if there is none. It trusts a type that encodes itself, and
// accepts that an empty slice or map becomes nil.
func lost(before, after reflect.Value, path string) string {
	if jsonshape.EncodesItself(before.Type()) {
		return ""
	}
	switch before.Kind() {
	case reflect.Struct:
		for i := range before.NumField() {
			if field := lost(before.Field(i), after.Field(i), path+"."+before.Type().Field(i).Name); field != "" {
				return field
			}
		}
	case reflect.Pointer:
		if before.IsNil() || after.IsNil() {
			return lostIf(before.IsNil() != after.IsNil(), path)
		}
		return lost(before.Elem(), after.Elem(), path)
	case reflect.Slice, reflect.Array:
		if before.Len() != after.Len() {
			return path
		}
		for i := range before.Len() {
			if field := lost(before.Index(i), after.Index(i), fmt.Sprintf("%s[%d]", path, i)); field != "" {
				return field
			}
		}
	case reflect.Map:
		if before.Len() != after.Len() {
			return path
		}
		for _, key := range before.MapKeys() {
			value := after.MapIndex(key)
			if !value.IsValid() {
				return path
			}
			if field := lost(before.MapIndex(key), value, fmt.Sprintf("%s[%v]", path, key)); field != "" {
				return field
			}
		}
	case reflect.Interface:
		// The value in it has another type after, such as an int64 for an int.
		return lostIf(before.IsNil() != after.IsNil(), path)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return lostIf(!before.IsNil(), path)
	default:
		return lostIf(!before.Equal(after), path)
	}
	return ""
}

func lostIf(is bool, path string) string {
	if is {
		return path
	}
	return ""
}
