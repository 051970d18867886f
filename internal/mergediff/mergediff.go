// Package mergediff compares objects of which only some fields are known: as JSON merge patches, and by carrying
// changes over.
//
// The rule: fields that the caller's type does not know stay as they are. The room works on decoded JSON alone.
package mergediff

import "reflect"

// Between returns the JSON merge patch (RFC 7386) that makes after of before; nil if they are the same.
func Between(before, after map[string]any) map[string]any {
	var patch map[string]any
	set := func(name string, value any) {
		if patch == nil {
			patch = map[string]any{}
		}
		patch[name] = value
	}
	for name, old := range before {
		field, ok := after[name]
		if !ok {
			set(name, nil)
			continue
		}
		oldMap, ok1 := old.(map[string]any)
		newMap, ok2 := field.(map[string]any)
		if ok1 && ok2 {
			if inner := Between(oldMap, newMap); inner != nil {
				set(name, inner)
			}
			continue
		}
		if !reflect.DeepEqual(old, field) {
			set(name, field)
		}
	}
	for name, field := range after {
		if _, ok := before[name]; !ok {
			set(name, field)
		}
	}
	return patch
}
