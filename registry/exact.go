package registry

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// exactly returns JSON without the members whose names are those of a type's members but for their case, at any depth
// that the type knows: "buc\u212Aet" for one. encoding/json takes them for the member itself, and the last one counts;
// so whoever may write a key could hide what the controller says behind one that other readers do not see. What is no
// object, or does not decode, is returned as it is.
func exactly(value []byte, t reflect.Type) []byte {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[json.RawMessage]():
	case t.Kind() == reflect.Slice:
		var list []json.RawMessage
		if json.Unmarshal(value, &list) != nil || list == nil {
			return value
		}
		for i := range list {
			list[i] = exactly(list[i], t.Elem())
		}
		return reencoded(list, value)
	case t.Kind() == reflect.Struct:
		var members object
		if json.Unmarshal(value, &members) != nil || members == nil {
			return value
		}
		dropFolded(members, t)
		for field := range t.Fields() {
			if name := nameOf(field); members[name] != nil {
				members[name] = exactly(members[name], field.Type)
			}
		}
		return reencoded(members, value)
	}
	return value
}

// dropFolded takes out the members that differ from those of a type by their case alone.
func dropFolded(members object, t reflect.Type) {
	known := map[string]bool{}
	for field := range t.Fields() {
		known[nameOf(field)] = true
	}
	for name := range members {
		if known[name] {
			continue
		}
		for ours := range known {
			if strings.EqualFold(name, ours) {
				delete(members, name)
			}
		}
	}
}

// nameOf is the name of the member of a field. All fields of an entry have one.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func reencoded(value any, otherwise []byte) []byte {
	data, err := encoded(value)
	if err != nil {
		return otherwise
	}
	return data
}
