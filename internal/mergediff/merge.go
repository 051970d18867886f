package mergediff

import (
	"reflect"
	"slices"
)

// ReplacesItems tells whether a merge patch, which has lists as a whole, replaces one of objects.
func ReplacesItems(before, patch map[string]any) bool {
	for name, field := range patch {
		switch field := field.(type) {
		case []any:
			old, _ := before[name].([]any)
			if slices.ContainsFunc(old, isObject) {
				return true
			}
		case map[string]any:
			if old, _ := before[name].(map[string]any); ReplacesItems(old, field) {
				return true
			}
		}
	}
	return false
}

func isObject(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// CarryOver returns full with what was changed between before and after: those are of a type that may not know all
// that is in full. An item of a list is the one that was equal, or had the same name, key or id as no other has; else
// the one at the same place, if the list is as long as it was.
func CarryOver(full, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return full
	}
	switch after := after.(type) {
	case map[string]any:
		full, ok1 := full.(map[string]any)
		before, ok2 := before.(map[string]any)
		if ok1 && ok2 {
			return carryFields(full, before, after)
		}
	case []any:
		full, ok1 := full.([]any)
		before, ok2 := before.([]any)
		if ok1 && ok2 && len(full) == len(before) {
			return carryItems(full, before, after)
		}
	}
	return after
}

func carryFields(full, before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name, field := range full {
		if _, known := before[name]; !known {
			out[name] = field
		}
	}
	for name, field := range after {
		all, there := full[name]
		old, known := before[name]
		switch {
		case there && known:
			out[name] = CarryOver(all, old, field)
		case !known || !reflect.DeepEqual(old, field): // else it is only how the type writes an empty field
			out[name] = field
		}
	}
	return out
}

func carryItems(full, before, after []any) []any {
	out := slices.Clone(after)
	for i, was := range samePlaces(before, after) {
		if was >= 0 {
			out[i] = CarryOver(full[was], before[was], after[i])
		}
	}
	return out
}

// samePlaces returns for each item of after where it was in before; -1 for one that is new.
func samePlaces(before, after []any) []int {
	places, taken := make([]int, len(after)), make([]bool, len(before))
	find := func(i int, same func(place int) bool) {
		for place := range before {
			if places[i] < 0 && !taken[place] && same(place) {
				places[i], taken[place] = place, true
			}
		}
	}
	for i, item := range after {
		places[i] = -1
		find(i, func(place int) bool { return reflect.DeepEqual(before[place], item) })
	}
	was, is := identities(before), identities(after)
	for i, item := range after {
		if id := identity(item); id != "" && was[id] == 1 && is[id] == 1 {
			find(i, func(place int) bool { return identity(before[place]) == id })
		}
	}
	for i, item := range after {
		if len(before) == len(after) {
			find(i, func(place int) bool { return place == i && identity(before[place]) == identity(item) })
		}
	}
	return places
}

// identities counts the items of a list by their identity, which need not be unique: two tolerations may have one key.
func identities(items []any) map[string]int {
	counts := map[string]int{}
	for _, item := range items {
		counts[identity(item)]++
	}
	return counts
}

// identity names an item of a list, as far as it can be known without a schema; "" if nothing does.
func identity(item any) string {
	fields, _ := item.(map[string]any)
	for _, name := range []string{"name", "key", "id"} {
		if id, ok := fields[name].(string); ok && id != "" {
			return name + "=" + id
		}
	}
	return ""
}
